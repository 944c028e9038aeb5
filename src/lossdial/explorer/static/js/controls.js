// The controls: each number a field and a slider, each coordinate of λ a slider over its values.

import { byId, node, write } from "./dom.js";
import { general, percent, plain, rounded } from "./format.js";
import { sigmoid } from "./model.js";
import { firstState, moved, thresholdOf } from "./state.js";

const decades = (from, to, steps) => {
  const list = [];
  for (let power = from; power <= to; power++) for (const step of steps) list.push(Number(`${step}e${power}`));
  return list;
};
const COSTS = [...decades(-1, 3, [1, 2, 3, 5, 7]), 10000];
const SHARES = [...decades(-4, -2, [1, 1.5, 2, 3, 4, 5, 7]), ...[1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9].map((k) => Number(`${k}e-1`))];
const FLOORS = [...Array.from({ length: 18 }, (_, k) => Number(`${5 * k}e-2`)), ...Array.from({ length: 10 }, (_, k) => Number(`${90 + k}e-2`)), 0.995, 1];
const ALERTS = [...decades(0, 1, [1, 1.5, 2, 3, 4, 5, 6, 8]), 100, 120, 150, 200, 250, 300, 400, 500, 600, 800, 1000];

const SPECS = {
  prevalence: { key: "prevalence", label: "Share that is positive", percent: true, list: SHARES, low: 1e-6, high: 1 - 1e-6 },
  "cost-fn": { key: "costFn", label: "A missed positive costs", list: COSTS, low: 1e-6, high: 1e9 },
  "cost-fp": { key: "costFp", label: "A false alarm costs", list: COSTS, low: 1e-6, high: 1e9 },
  floor: { key: "floor", label: "Catch at least (recall)", percent: true, list: FLOORS, low: 0, high: 1 },
  budget: { key: "budget", label: "Alarms, at most", unit: "of 1,000", list: ALERTS, low: 0, high: 1000 },
};

// The decimal point moved in the text, so that 7.1 % is the number 0.071 and no neighbour of it.
const parse = (text, percent) => (text.trim() === "" ? NaN : Number(percent ? `${text}e-2` : text));
const show = (value, percent) => (percent ? plain(Number(`${Number(value.toPrecision(4))}e2`)) : plain(Number(value.toPrecision(6))));

class Field {
  constructor(name, store) {
    const spec = SPECS[name];
    Object.assign(this, { spec, store });
    this.list = spec.list;
    if (name === "prevalence") this.list = [...new Set([...spec.list, store.model.prevalence])].sort((a, b) => a - b);
    const unit = spec.percent ? "%" : spec.unit;
    this.input = node("input", { type: "number", id: name, step: "any", inputmode: "decimal", min: spec.percent ? 100 * spec.low : spec.low });
    this.slider = node("input", { type: "range", id: `${name}-slider`, min: 0, max: this.list.length - 1, step: 1, "aria-label": `${spec.label}, slider` });
    this.hint = node("p", { class: "hint", id: `${name}-hint`, hidden: true });
    this.input.setAttribute("aria-describedby", this.hint.id);
    document.querySelector(`[data-control="${name}"]`).replaceChildren(
      node("label", { for: name }, spec.label),
      node("span", { class: "field" }, this.input, unit ? node("span", {}, unit) : ""),
      this.slider,
      this.hint,
    );
    this.input.addEventListener("input", () => this.typed());
    this.input.addEventListener("change", () => this.write(store.state, true));
    this.slider.addEventListener("input", () => this.take(this.list[Number(this.slider.value)]));
  }

  typed() {
    const { low, high, percent } = this.spec;
    const value = parse(this.input.value, percent);
    const legal = value >= low && value <= high;
    this.input.setAttribute("aria-invalid", legal ? "false" : "true");
    const ends = [low, high].map((end) => (end === 1e-6 || end === 1 - 1e-6 ? "" : show(end, percent)));
    const range = ends[0] && ends[1] ? `between ${ends[0]} and ${ends[1]}` : percent ? "more than 0 and less than 100" : "more than 0";
    write(this.hint, legal ? "" : `This must be ${range}; the last legal value stays.`);
    this.hint.hidden = legal;
    if (legal) this.take(value);
  }

  take(value) {
    this.store.change({ [this.spec.key]: value });
  }

  write(state, force = false) {
    const value = state[this.spec.key];
    if (force || document.activeElement !== this.input) {
      this.input.value = show(value, this.spec.percent);
      this.input.setAttribute("aria-invalid", "false");
      this.hint.hidden = true;
    }
    let nearest = 0;
    this.list.forEach((entry, k) => {
      if (Math.abs(entry - value) < Math.abs(this.list[nearest] - value)) nearest = k;
    });
    this.slider.value = String(nearest);
    this.slider.setAttribute("aria-valuetext", `${show(value, this.spec.percent)} ${this.spec.percent ? "percent" : this.spec.unit ?? ""}`);
  }
}

const MEANINGS = { ridge: "log₁₀ C: further left, a smoother model" };

class Coordinate {
  constructor(axis, store) {
    this.axis = axis;
    const id = `lam-${axis.position}`;
    this.value = node("span", { class: "value" });
    this.slider = node("input", { type: "range", id, min: 0, max: axis.values.length - 1, step: 1 });
    const meaning = Object.hasOwn(MEANINGS, axis.name) ? node("p", { class: "hint" }, MEANINGS[axis.name]) : "";
    this.element = node("div", { class: "control" }, node("label", { for: id }, `λ: ${axis.name}`), this.value, this.slider, meaning);
    this.slider.addEventListener("input", () => {
      const { model, state } = store;
      store.set(moved(model, state, model.along(axis.position, Number(this.slider.value), state.column)));
    });
  }

  write(model, column) {
    const value = general(model.lams[column][this.axis.position], 6);
    write(this.value, value);
    this.slider.value = String(model.indexOn(this.axis.position, column));
    this.slider.setAttribute("aria-valuetext", value);
  }
}

export class Controls {
  constructor(store) {
    const { model } = store;
    this.store = store;
    this.first = firstState(model);
    this.costsKnown = Boolean(this.first.aim?.cost_fn);
    const names = Object.keys(SPECS).filter((name) => model.labelled || name === "budget");
    this.fields = names.map((name) => new Field(name, store));
    this.coordinates = model.free.map((axis) => new Coordinate(axis, store));
    const constants = model.axes.filter(({ values }) => values.length === 1);
    const still = constants.map(({ name, values }) => `${name} = ${general(values[0], 6)}`).join(", ");
    byId("lam").replaceChildren(
      ...this.coordinates.map(({ element }) => element),
      ...(still ? [node("p", { class: "hint" }, `The same everywhere: ${still}.`)] : []),
      ...(model.names.length ? [] : [node("p", { class: "hint" }, "There is one score per row: no λ to move.")]),
    );
    this.threshold = byId("threshold");
    this.threshold.addEventListener("input", () => this.toCut(Number(this.threshold.value)));
    byId("confidence").addEventListener("change", (event) => store.change({ confidence: Number(event.target.value) }));
    for (const radio of document.querySelectorAll('input[name="follow"]')) {
      radio.addEventListener("change", () => store.change({ follow: radio.value }));
    }
    byId("controls").addEventListener("submit", (event) => event.preventDefault());
  }

  toCut(cut) {
    this.store.change({ cut, follow: "hand" });
  }

  write(view) {
    const { model, state } = this.store;
    for (const field of this.fields) field.write(state);
    for (const coordinate of this.coordinates) coordinate.write(model, state.column);
    byId("confidence").value = String(state.confidence);
    for (const radio of document.querySelectorAll('input[name="follow"]')) radio.checked = radio.value === state.follow;
    const { costFn, costFp } = this.first;
    byId("costs-note").hidden = this.costsKnown || state.costFn !== costFn || state.costFp !== costFp;
    const { column, cut } = state;
    this.threshold.max = String(model.none(column));
    this.threshold.value = String(cut);
    const value = thresholdOf(model, state);
    const text = Number.isFinite(value) ? general(value, 6) : "above all";
    write(byId("threshold-value"), text);
    const { tp, fp } = model.counts(column, cut);
    const stated = model.labelled ? `, calibrated ${general(model.probability(column, value, state.prevalence), 3)}` : "";
    const own = Number.isFinite(value) ? `the model's own probability ${general(sigmoid(value), 3)}${stated}; ` : "";
    const accepted = model.labelled
      ? model.weighted ? `${percent(view.figures.recall.value)} of ${model.classes[1]} above it` : `above it: ${tp} of ${model.rows.positive} ${model.classes[1]}, ${fp} of ${model.rows.negative} others`
      : `above it: ${fp} of ${model.rows.all} rows`;
    const note = `${own}${accepted}`;
    write(byId("threshold-note"), note);
    this.threshold.setAttribute("aria-valuetext", `${text}, ${note}`);
    // To who cannot see the plots move: every slider says what has come of it.
    const outcome = model.labelled
      ? `recall ${rounded(view.figures.recall.value)}, precision ${Number.isNaN(view.figures.precision.value) ? "undefined" : rounded(view.figures.precision.value)}`
      : `${rounded(1000 * view.alerts.value, 1, 1000)} alarms per 1,000`;
    for (const { slider } of [...this.fields, ...this.coordinates]) {
      slider.setAttribute("aria-valuetext", `${slider.getAttribute("aria-valuetext").trim()}; ${outcome}`);
    }
  }
}

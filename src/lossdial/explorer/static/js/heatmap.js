// Any figure over λ: cells to click or walk through with the arrow keys; grey where chance may explain the difference.

import { byId, draw, node } from "./dom.js";
import { general } from "./format.js";
import { Plot } from "./plot.js";
import { objectives, deviations, everyLam } from "./search.js";

const VIRIDIS = ["440154", "482878", "3e4a89", "31688e", "26828e", "1f9e89", "35b779", "6ece58", "b5de2b", "fde725"].map(
  (hex) => [0, 2, 4].map((k) => parseInt(hex.slice(k, k + 2), 16)),
);
const NAMES = {
  auc: "AUC",
  average_precision: "Average precision",
  max_f1: "Best F1 over thresholds",
  max_balanced_accuracy: "Best balanced accuracy over thresholds",
  brier: "Brier score, calibrated",
  log_loss: "Log loss, calibrated",
};
const MINE = {
  cost: (model) => `Least cost per 1,000 ${model.noun}`,
  recall: () => "Best precision at my recall floor",
  budget: () => "Best recall within my alerts",
};

// Where the values of an axis lie. A point's own λ may be off the grid: a value with few cells takes little room.
function bands({ values, position }, model, columns) {
  const counts = values.map(() => 0);
  for (const column of columns) counts[model.indexOn(position, column)]++;
  const most = Math.max(...counts);
  const sizes = counts.map((count) => (2 * count >= most ? 1 : 0.4));
  let end = 0;
  const ends = sizes.map((size) => (end += size));
  const whole = values.map((_, k) => k).filter((k) => sizes[k] === 1);
  const every = Math.ceil(whole.length / 6);
  const centres = ends.map((at, k) => at - sizes[k] / 2);
  return { sizes, ends, centres, total: end, ticks: whole.filter((_, k) => k % every === 0) };
}

function colour(share) {
  const at = Math.min(0.9999, Math.max(0, share)) * (VIRIDIS.length - 1);
  const [a, b, t] = [VIRIDIS[Math.floor(at)], VIRIDIS[Math.floor(at) + 1], at % 1];
  return `rgb(${a.map((v, k) => Math.round(v + t * (b[k] - v))).join(" ")})`;
}

export class HeatMap {
  constructor(model, { onColumn, onMetric, onAxes }) {
    Object.assign(this, { model, onColumn, onAxes });
    this.host = byId("map");
    this.host.hidden = model.free.length === 0 || !model.labelled;
    const role = model.free.length > 1 ? "grid" : "group";
    this.plot = new Plot(this.host.querySelector(".plot"), { ratio: 0.8, left: 52, label: "Every λ", role });
    const select = byId("metric");
    const option = (value, text) => node("option", { value }, text);
    select.replaceChildren(
      node("optgroup", { label: "At my settings" }, Object.entries(MINE).map(([name, text]) => option(name, text(model)))),
      node("optgroup", { label: "Of the scores" }, model.metrics.map(({ name }) => option(name, NAMES[name] ?? name))),
    );
    select.addEventListener("change", () => onMetric(select.value));
    this.plot.svg.addEventListener("keydown", (event) => this.walk(event));
    if (model.free.length > 2) this.chooseAxes();
  }

  chooseAxes() {
    const pick = (which, text) => {
      const options = this.model.free.map(({ name }) => node("option", { value: name }, name));
      const select = node("select", { id: `map-${which}` }, options);
      select.addEventListener("change", () => this.onAxes(which, select.value));
      return [node("label", { for: `map-${which}` }, text), " ", select, " "];
    };
    byId("map-axes").replaceChildren(...pick("x", "across"), ...pick("y", "up"));
  }

  axesOf({ across, up }) {
    const { free } = this.model;
    const x = free.find(({ name }) => name === across) ?? free[0];
    const y = free.find(({ name }) => name === up && name !== x.name) ?? free.find(({ name }) => name !== x.name);
    return [x, y];
  }

  // What is shown of every λ: values, the best λ, which are inside the noise, and how to print one.
  grade(view) {
    const { model } = this;
    const { metric } = view.state;
    if (metric in MINE) {
      const objective = objectives[metric](model.sizes, view.setting);
      const { cuts, best } = metric === "cost" ? view.cheapest : everyLam(model, objective);
      const values = Array.from(cuts, (cut, column) => {
        const { tp, fp } = model.counts(column, cut);
        const { value } = objective.shown(tp, fp);
        return Number.isNaN(value) ? 0 : value;
      });
      const noise = deviations(model, objective, cuts, best);
      const reach = Math.max(...model.metrics.map((other) => other.reach));
      const scale = metric === "cost" ? 1000 : 1;
      return {
        values: values.map((value) => scale * value),
        best,
        greater: objective.greater,
        same: values.map((value, column) => Math.abs(value - values[best]) <= reach * noise[column]),
      };
    }
    const { best, greater, reach } = model.metrics.find(({ name }) => name === metric);
    const values = Array.from(model.streams[`metric ${metric}`]);
    const noise = model.streams[`noise ${metric}`];
    const same = values.map((value, column) => Math.abs(value - values[best]) <= reach * noise[column]);
    return { values, best, greater, same };
  }

  // Grading looks at every λ, so it is done anew only where what it depends on has moved.
  graded(view) {
    const { metric, prevalence, costFn, costFp, floor, budget } = view.state;
    const moving = { cost: [prevalence, costFn, costFp], recall: [prevalence, floor], budget: [prevalence, budget] };
    const key = JSON.stringify([metric, moving[metric]]);
    if (this.gradedKey !== key) Object.assign(this, { gradedKey: key, found: this.grade(view) });
    return this.found;
  }

  draw(view) {
    const { model } = this;
    if (this.host.hidden) return;
    byId("metric").value = view.state.metric;
    const graded = this.graded(view);
    const [x, y] = this.axesOf(view.state);
    if (model.free.length > 2) [byId("map-x").value, byId("map-y").value] = [x.name, y.name];
    const here = model.lams[view.state.column];
    const rest = model.free.filter((axis) => axis !== x && axis !== y);
    this.shown = { x, y };
    if (y) {
      const key = JSON.stringify([x.name, y.name, this.plot.width, rest.map(({ position }) => here[position])]);
      if (this.layoutKey !== key) {
        const inPlane = (column) => rest.every(({ position }) => model.lams[column][position] === here[position]);
        Object.assign(this, { layoutKey: key, painted: null });
        this.layOut(model.plainest.filter(inPlane));
      }
      if (this.painted !== graded) this.paint(graded);
      this.mark(view, graded);
    } else this.line(view, graded);
    if (this.explained !== graded) this.legend(graded);
    this.explained = graded;
  }

  say(column, graded) {
    const lam = this.model.names.map((name, k) => `${name} ${general(this.model.lams[column][k], 4)}`).join(", ");
    return `${lam}: ${general(graded.values[column], 4)}${graded.same[column] ? ", inside the noise" : ""}`;
  }

  layOut(columns) {
    const { model, plot } = this;
    const { x, y } = this.shown;
    const [across, up] = [x, y].map((axis) => bands(axis, model, columns));
    const axis = ({ values, name }, { centres, ticks, total }) => {
      const text = (at) => general(values[centres.indexOf(at)], 3);
      return { domain: [0, total], label: name, ticks: ticks.map((k) => centres[k]), text };
    };
    plot.begin(axis(x, across), axis(y, up));
    const span = (scale, { ends, sizes }, k) => [scale(ends[k] - sizes[k]), scale(ends[k])].sort((a, b) => a - b);
    this.boxes = new Map();
    this.cells = new Map();
    const rows = new Map();
    for (const column of columns) {
      const [i, j] = [model.indexOn(x.position, column), model.indexOn(y.position, column)];
      const [[x0, x1], [y0, y1]] = [span(plot.x, across, i), span(plot.y, up, j)];
      const box = { x: x0, y: y0, width: x1 - x0, height: y1 - y0 };
      this.boxes.set(column, box);
      const cell = draw("rect", {
        class: "cell", ...box,
        role: "gridcell", tabindex: -1, "aria-selected": "false", "data-column": column, onclick: () => this.onColumn(column),
      });
      this.cells.set(column, cell);
      if (!rows.has(j)) rows.set(j, []);
      rows.get(j).push([i, cell]);
    }
    const ordered = [...rows.keys()].sort((a, b) => b - a);
    plot.add(...ordered.map((j) => draw("g", { role: "row" }, rows.get(j).sort((a, b) => a[0] - b[0]).map(([, cell]) => cell))));
    this.marks = draw("g", { "aria-hidden": "true" });
    plot.add(this.marks);
    plot.end(`${columns.length} cells`);
  }

  paint(graded) {
    this.painted = graded;
    const [least, most] = [Math.min(...graded.values), Math.max(...graded.values)];
    const rank = (value) => (most > least ? (graded.greater ? value - least : most - value) / (most - least) : 1);
    for (const [column, cell] of this.cells) {
      cell.setAttribute("class", graded.same[column] && column !== graded.best ? "cell same" : "cell");
      cell.setAttribute("fill", colour(rank(graded.values[column])));
      cell.setAttribute("aria-label", this.say(column, graded));
    }
  }

  mark(view, graded) {
    const { plot } = this;
    const { x, y } = this.shown;
    const { column } = view.state;
    const middle = ({ x: left, y: top, width, height }) => [left + width / 2, top + height / 2];
    const focused = plot.svg.contains(document.activeElement);
    for (const [cell, to] of [[this.current, -1], [this.cells.get(column), 0]]) {
      cell?.setAttribute("tabindex", to);
      cell?.setAttribute("aria-selected", to ? "false" : "true");
    }
    this.current = this.cells.get(column);
    if (focused) this.current?.focus();
    const ring = () => draw("rect", { class: "ring", ...this.boxes.get(column) });
    const best = this.boxes.get(graded.best);
    this.marks.replaceChildren(...(best ? [star(...middle(best))] : []), ring(), ring());
    plot.svg.setAttribute("aria-label", `Every λ. ${this.cells.size} cells, ${x.name} across and ${y.name} up. This λ: ${this.say(column, graded)}`);
  }

  line(view, graded) {
    const { model, plot } = this;
    const { x } = this.shown;
    const order = Array.from({ length: model.size }, (_, k) => k).sort((a, b) => model.lams[a][x.position] - model.lams[b][x.position]);
    const [least, most] = [Math.min(...graded.values), Math.max(...graded.values)];
    const room = (most - least) * 0.1 || 0.05;
    const every = Math.ceil(x.values.length / 6);
    plot.begin(
      {
        domain: [-0.5, x.values.length - 0.5], label: x.name,
        ticks: x.values.map((_, k) => k).filter((k) => k % every === 0), text: (k) => general(x.values[k], 3),
      },
      { domain: [least - room, most + room], label: byId("metric").selectedOptions[0].textContent },
    );
    const at = (column) => [model.indexOn(x.position, column), graded.values[column]];
    plot.path("now", order.map(at));
    for (const column of order) {
      const [i, value] = at(column);
      plot.add(
        draw("circle", {
          class: graded.same[column] && column !== graded.best ? "cell same" : "cell", cx: plot.x(i), cy: plot.y(value), r: 7,
          fill: colour(0.35), role: "button", tabindex: column === view.state.column ? 0 : -1,
          "aria-label": this.say(column, graded), "data-column": column, onclick: () => this.onColumn(column),
        }),
      );
    }
    const [i, value] = at(view.state.column);
    plot.add(star(plot.x(at(graded.best)[0]), plot.y(at(graded.best)[1])));
    plot.dot("ring", i, value, 9);
    plot.dot("ring", i, value, 9);
    const focused = plot.svg.contains(document.activeElement);
    plot.end(`This λ: ${this.say(view.state.column, graded)}`);
    if (focused) plot.svg.querySelector('[tabindex="0"]')?.focus();
  }

  walk(event) {
    const { x, y } = this.shown;
    const steps = { ArrowLeft: [x, -1], ArrowRight: [x, 1], ArrowUp: [y ?? x, 1], ArrowDown: [y ?? x, -1] };
    if (!(event.key in steps)) return;
    event.preventDefault();
    const [axis, step] = steps[event.key];
    const column = Number(event.target.dataset.column);
    const index = this.model.indexOn(axis.position, column) + step;
    if (index >= 0 && index < axis.values.length) this.onColumn(this.model.along(axis.position, index, column));
  }

  legend(graded) {
    const [least, most] = [Math.min(...graded.values), Math.max(...graded.values)];
    const scale = node("span", { class: "scale", "aria-hidden": "true" });
    scale.style.background = `linear-gradient(90deg, ${VIRIDIS.map((_, k) => colour(k / (VIRIDIS.length - 1))).join(", ")})`;
    const swatch = node("span", { class: "swatch", "aria-hidden": "true" });
    swatch.style.background = "var(--grey-cell)";
    const [worse, better] = graded.greater ? [least, most] : [most, least];
    const bar = [general(worse, 3), scale, general(better, 3)];
    this.host.querySelector(".legend").replaceChildren(
      node("span", { class: "key" }, ...bar),
      node("span", { class: "key" }, "☆ best"),
      node("span", { class: "key" }, swatch, "as good as the best, as far as these rows can tell (95 %)"),
    );
  }
}

function star(cx, cy) {
  const tips = Array.from({ length: 10 }, (_, k) => {
    const [r, a] = [k % 2 ? 3.4 : 8, (Math.PI * k) / 5 - Math.PI / 2];
    return `${(cx + r * Math.cos(a)).toFixed(1)},${(cy + r * Math.sin(a)).toFixed(1)}`;
  });
  return draw("polygon", { class: "star", points: tips.join(" ") });
}

// Named points, side by side, and as a file.

import { byId, node, write } from "./dom.js";
import { figuresAt } from "./figures.js";
import { general, percent, printed } from "./format.js";
import { logOdds, sigmoid } from "./model.js";
import { numberOf, settingOf, thresholdOf } from "./state.js";

const ROWS = [
  ["recall", "Recall"],
  ["precision", "Precision"],
  ["specificity", "Specificity"],
  ["npv", "Negative predictive value"],
  ["alert_rate", "Alert rate"],
  ["f1", "F1"],
  ["accuracy", "Accuracy"],
  ["balanced_accuracy", "Balanced accuracy"],
  ["expected_cost", "Expected cost per case"],
  ["net_benefit", "Net benefit per case"],
];

const KEPT = {
  hand: "set by hand",
  cost: "least cost at this λ",
  recall: "most precise at this λ with the recall floor",
  budget: "most caught at this λ within the alarms",
};

const letter = (k) => (k < 26 ? String.fromCharCode(65 + k) : String(k + 1));

// The points given with the page, then those added on it.
export function listed(model, state) {
  const given = model.points.map(({ point, column, tp, fp, certificate }) => ({
    name: point.name, column, tp, fp, certificate, threshold: numberOf(point.threshold),
    objective: point.objective, given: point,
  }));
  const own = state.points.map((point) => ({
    ...point, ...model.counts(point.column, point.cut), threshold: thresholdOf(model, point),
  }));
  return [...given, ...own].map((point, k) => ({ ...point, letter: letter(k) }));
}

// A point as OperatingPoint.to_json writes it.
function toJson(model, state, point) {
  if (point.given) return point.given;
  const values = model.lams[point.column];
  const plainPoint = {
    name: point.name,
    lam: Object.fromEntries(model.names.map((name, k) => [name, values[k]])),
    threshold: Number.isFinite(point.threshold) ? point.threshold : point.threshold > 0 ? "inf" : "-inf",
    objective: point.objective,
    aim: point.aim ?? null,
    metrics: {},
    n_positive: model.labelled ? model.rows.positive : 0,
    n_negative: model.labelled ? model.rows.negative : 0,
    feasible: true,
    note: point.certificate ? `the explorer's certificate: ${point.certificate}` : "set in the explorer",
    missed: [],
    crossfit: {},
    calibration: null,
    prevalence: null,
    shift: 0,
    certificate: null,
    chosen_on: "",
    holding: "",
  };
  if (!model.labelled) return plainPoint;
  const figures = figuresAt(point.tp, point.fp, model.sizes, settingOf(state));
  for (const [name, { value, low, high }] of Object.entries(figures)) {
    if (!Number.isNaN(value)) plainPoint.metrics[name] = [value, low, high];
  }
  plainPoint.calibration = model.calibrations[point.column];
  if (state.prevalence !== model.prevalence) {
    plainPoint.prevalence = state.prevalence;
    plainPoint.shift = logOdds(state.prevalence) - logOdds(model.prevalence);
  }
  return plainPoint;
}

export class Points {
  constructor(store, onShow) {
    Object.assign(this, { store, onShow });
    byId("adding").addEventListener("submit", (event) => {
      event.preventDefault();
      this.add(byId("point-name").value.trim());
    });
    byId("save").addEventListener("click", () => this.save());
  }

  say(text) {
    write(byId("points-said"), text);
  }

  add(name) {
    const { model, state } = this.store;
    if (!name) return this.say("Give the point a name first.");
    if (listed(model, state).some((point) => point.name === name)) return this.say(`There is already a point named ${name}.`);
    const { column, cut, exact, origin, aim, certificate } = state;
    const point = { name, column, cut, exact, objective: origin || "set in the explorer", aim, certificate };
    this.store.show({ points: [...state.points, point] });
    byId("point-name").value = "";
    return this.say(`Added ${name}.`);
  }

  remove(name) {
    this.store.show({ points: this.store.state.points.filter((point) => point.name !== name) });
    this.say(`Removed ${name}.`);
    byId("point-name").focus();
  }

  save() {
    const { model, state } = this.store;
    const points = listed(model, state).map((point) => toJson(model, state, point));
    const file = { format: model.format, title: model.title, evidence: model.evidence ?? null, points };
    const content = JSON.stringify(file, null, 1);
    const link = node("a", { download: "points.json", href: URL.createObjectURL(new Blob([content], { type: "application/json" })) });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    const count = points.length;
    this.say(count ? `Saved ${count} ${count === 1 ? "point" : "points"} as points.json.` : "There are no points yet; the file is empty.");
  }

  write(view) {
    const { model, state } = this.store;
    const now = { ...model.counts(state.column, state.cut), column: state.column, threshold: thresholdOf(model, state), certificate: state.certificate, objective: state.origin || KEPT[state.follow] };
    const all = [now, ...view.points];
    const head = all.map((point, k) => {
      const badge = node("span", { class: k ? "badge" : "badge now", "aria-hidden": "true" }, k ? point.letter : "");
      const acts = k
        ? node("span", { class: "acts" },
            node("button", { type: "button", class: "quiet small", "aria-label": `Show ${point.name}`, onclick: () => this.onShow(point) }, "Show"),
            point.given ? "" : node("button", { type: "button", class: "quiet small", "aria-label": `Remove ${point.name}`, onclick: () => this.remove(point.name) }, "Remove"))
        : "";
      return node("th", { scope: "col" }, badge, k ? point.name : "Now", acts);
    });
    const row = (name, cells) => node("tr", {}, node("th", { scope: "row" }, name), cells);
    const body = [];
    const setting = settingOf(state);
    const figures = all.map(({ tp, fp }) => (model.labelled ? figuresAt(tp, fp, model.sizes, setting) : { alert_rate: view.alertsOf(fp) }));
    for (const [name, label] of ROWS.filter(([key]) => key in figures[0])) {
      body.push(row(label, figures.map((found, k) => {
        const [value, ...interval] = printed(found[name]).split(" ");
        return node("td", { "data-figure": name, "data-point": k ? all[k].name : "" }, `${value} `, node("small", {}, interval.join(" ")));
      })));
    }
    if (model.names.length) {
      body.push(row("λ", all.map(({ column }) => node("td", { class: "text" }, model.names.map((name, k) => `${name} ${general(model.lams[column][k], 4)}`).join(", ")))));
    }
    body.push(row("Threshold", all.map(({ threshold }) => node("td", {}, Number.isFinite(threshold) ? general(threshold, 6) : "above all"))));
    body.push(row("– as the model's own probability", all.map(({ threshold }) => node("td", {}, general(sigmoid(threshold), 3)))));
    const calibrated = ({ given, column, threshold }) => given?.threshold_probability ?? model.probability(column, threshold, state.prevalence);
    if (model.labelled) body.push(row("– as the calibrated probability", all.map((point) => node("td", {}, general(calibrated(point), 3)))));
    if (model.labelled) body.push(row("Certificate", all.map(({ certificate }) => node("td", { class: "text" }, certificate || "not certified"))));
    body.push(row("Chosen to", all.map(({ objective }) => node("td", { class: "text" }, objective))));
    const caption = model.labelled ? `At a prevalence of ${percent(state.prevalence, 2)}` : "Alerts only: there are no labels";
    byId("compare").replaceChildren(node("caption", { class: "hint" }, caption), node("thead", {}, node("tr", {}, node("th", { scope: "col" }, ""), head)), node("tbody", {}, body));
    this.fit();
  }

  // Whether the table is wider than its place is told in words, too.
  fit() {
    const { scrollWidth, clientWidth } = byId("compare").parentElement;
    byId("compare-more").hidden = scrollWidth <= clientWidth + 1;
  }
}

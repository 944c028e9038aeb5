// What is set on the page, and its spelling in the address.

import { plain } from "./format.js";
import { objectives, cutFor } from "./search.js";

const FOLLOWS = ["hand", "cost", "recall", "budget"];

const BY_HAND = { origin: "", aim: null, certificate: "", exact: null };

export function firstState(model) {
  const state = {
    column: model.plainest[0],
    cut: 0,
    prevalence: model.prevalence,
    costFn: 10, // an example, and said to be one
    costFp: 1,
    floor: 0.95,
    budget: 100,
    confidence: 0.95,
    follow: model.labelled || model.points.length ? "hand" : "budget",
    metric: "cost",
    across: "",
    up: "",
    theme: "",
    points: [],
    ...BY_HAND,
  };
  const own = model.points.find(({ point }) => point.name === "default") ?? model.points[0];
  if (own) Object.assign(state, opening(model, own));
  else if (model.labelled) state.cut = model.cutNear(state.column, 0);
  if (!own?.point.aim?.cost_fn && model.labelled) state.metric = model.metrics[0]?.name ?? "cost";
  return settled(model, state);
}

// What an operating point that was given with the page sets: its λ, threshold and prevalence, and the costs of its objective.
function opening(model, { point, column, tp, fp, certificate }) {
  const { objective: origin, aim } = point;
  const costs = aim?.cost_fn ? { costFn: aim.cost_fn, costFp: aim.cost_fp } : {};
  const prevalence = model.labelled ? { prevalence: point.prevalence ?? model.prevalence } : {};
  return { ...costs, ...prevalence, ...placeOf(model, { column, tp, fp, threshold: numberOf(point.threshold) }), origin, aim, certificate };
}

export const numberOf = (text) => Number(String(text).replace("inf", "Infinity"));

// Where a point stands. A certified threshold lies next to a score, not midway: what it accepts says which cut it is.
export function placeOf(model, point) {
  const { column, tp, fp, threshold } = point;
  const same = model.labelled ? model.cutKeeping(column, tp) : 0;
  const counts = model.counts(column, same);
  const is = model.labelled && tp > 0 && counts.tp === tp && counts.fp === fp;
  return {
    column,
    cut: point.cut ?? (is ? same : model.cutNear(column, threshold)),
    exact: point.exact ?? (is ? threshold : null),
  };
}

// The threshold itself: that of the cut, or another that accepts the same rows, such as a certificate's.
export const thresholdOf = (model, { column, cut, exact }) => exact ?? model.threshold(column, cut);

export const settingOf = ({ prevalence, costFn, costFp, floor, budget }) => ({ prevalence, costFn, costFp, floor, budget });

function withinBudget(model, column, budget) {
  const most = (budget / 1000) * model.rows.all * (1 + 1e-12);
  for (let cut = 0; cut < model.lengths[column]; cut++) if (model.counts(column, cut).fp <= most) return cut;
  return model.none(column);
}

// The state with its threshold where `follow` wants it.
export function settled(model, state) {
  if (state.follow === "hand") return state;
  if (!model.labelled) return { ...state, cut: withinBudget(model, state.column, state.budget) };
  return { ...state, cut: cutFor(model, state.column, objectives[state.follow](model.sizes, settingOf(state))) };
}

// Another λ. Scores there are on another scale, so a threshold left to the hand keeps to the recall, not to its number.
export function moved(model, state, column) {
  const { tp, fp } = model.counts(state.column, state.cut);
  const next = { ...state, column, ...BY_HAND };
  if (model.labelled) next.cut = model.cutKeeping(column, tp);
  else {
    next.cut = model.none(column);
    while (next.cut > 0 && model.counts(column, next.cut - 1).fp <= fp) next.cut--;
  }
  return settled(model, next);
}

export function toAddress(model, state) {
  const first = firstState(model);
  const query = new URLSearchParams();
  model.free.forEach(({ name, position }) => query.append(`lam.${name}`, plain(model.lams[state.column][position])));
  query.set("threshold", String(model.threshold(state.column, state.cut)).replace("Infinity", "inf"));
  const names = { costFn: "fn", costFp: "fp", floor: "recall", budget: "alerts", confidence: "confidence", follow: "hold",
    metric: "map", across: "x", up: "y", theme: "theme", prevalence: "prevalence" };
  for (const [key, name] of Object.entries(names)) {
    if (!Object.is(state[key], first[key]) && state[key] !== "") query.set(name, String(state[key]));
  }
  for (const { name, column, cut } of state.points) query.append("point", `${column}.${cut}.${name}`);
  return `#${query}`;
}

function number(query, name, low, high, otherwise) {
  if (!query.has(name)) return otherwise;
  const value = Number(query.get(name).replace("inf", "Infinity"));
  return query.get(name) !== "" && value >= low && value <= high ? value : otherwise;
}

export function fromAddress(model, hash) {
  const state = firstState(model);
  const query = new URLSearchParams(hash.replace(/^#/, ""));
  const choice = (name, legal, otherwise) => (legal.includes(query.get(name)) ? query.get(name) : otherwise);
  state.prevalence = number(query, "prevalence", 1e-6, 1 - 1e-6, state.prevalence);
  state.costFn = number(query, "fn", 1e-6, 1e9, state.costFn);
  state.costFp = number(query, "fp", 1e-6, 1e9, state.costFp);
  state.floor = number(query, "recall", 0, 1, state.floor);
  state.budget = number(query, "alerts", 0, 1000, state.budget);
  state.confidence = Number(choice("confidence", ["0.9", "0.95", "0.99"], String(state.confidence)));
  state.follow = choice("hold", model.labelled ? FOLLOWS : ["hand", "budget"], state.follow);
  state.metric = choice("map", ["cost", "recall", "budget", ...model.metrics.map(({ name }) => name)], state.metric);
  state.across = choice("x", model.names, "");
  state.up = choice("y", model.names, "");
  state.theme = choice("theme", ["light", "dark"], "");
  const wanted = model.lams[state.column].slice();
  model.free.forEach(({ name, position, values }) => {
    wanted[position] = number(query, `lam.${name}`, values[0] - 1e-9, values[values.length - 1] + 1e-9, wanted[position]);
  });
  state.column = model.nearest(wanted);
  const settledState = settled(model, state);
  const threshold = number(query, "threshold", -Infinity, Infinity, NaN);
  if (!Number.isNaN(threshold)) settledState.cut = model.cutNear(state.column, threshold);
  const first = firstState(model);
  const placed = ["column", "cut", "prevalence", "costFn", "costFp", "floor", "budget", "confidence", "follow"];
  if (placed.some((key) => settledState[key] !== first[key])) Object.assign(settledState, BY_HAND);
  settledState.points = query.getAll("point").flatMap((text) => {
    const found = /^(\d+)\.(\d+)\.(.+)$/s.exec(text);
    if (!found || Number(found[1]) >= model.size || Number(found[2]) > model.lengths[Number(found[1])]) return [];
    return [{ column: Number(found[1]), cut: Number(found[2]), name: found[3], objective: "set in the explorer", certificate: "" }];
  });
  return settledState;
}

export class Store {
  constructor(model, state) {
    Object.assign(this, { model, state, listeners: [] });
  }

  set(state) {
    this.state = state;
    for (const listener of this.listeners) listener(state);
  }

  change(patch) {
    this.set(settled(this.model, { ...this.state, ...BY_HAND, ...patch }));
  }

  // Something that moves no figure.
  show(patch) {
    this.set({ ...this.state, ...patch });
  }
}

// What the figures mean, in plain sentences.

import { fixed, general, grouped, percent, rounded } from "./format.js";

const counted = (n, one, many) => `${grouped(n)} ${n === 1 ? one : many}`;

export function about(model) {
  const lams = model.size > 1 ? `${grouped(model.size)} values of λ` : "one score per row";
  if (!model.labelled) return `${counted(model.rows.all, "row", "rows")} without labels · ${lams}`;
  const groups = model.groups === null ? "" : ` in ${counted(model.groups, "group", "groups")}`;
  const weights = model.weighted ? ", weighted" : "";
  const share = percent(model.prevalence, model.prevalence < 0.01 ? 2 : 1);
  return `${counted(model.rows.all, "row", "rows")}${groups}${weights} · ${grouped(model.rows.positive)} ${model.classes[1]} (${share}) · ${lams}`;
}

export function summary(model, view) {
  if (!model.labelled) {
    return `Of 1,000 ${model.noun} such as these the alarm sounds for ${rounded(1000 * view.alerts.value, 1, 1000)}. Whether rightly, only labels could tell.`;
  }
  const { caught, missed, false_alarms: wrong, text: say } = view.counted;
  const share = view.figures.precision.value;
  const right = Number.isNaN(share) ? "" : share > 0 ? ` One alarm in ${fixed(1 / share, 1)} is right.` : " No alarm is right.";
  return (
    `Of 1,000 ${model.noun}, ${say(caught + missed)} are ${model.classes[1]}. The alarm sounds for ` +
    `${say(caught + wrong)}: rightly for ${say(caught)}, wrongly for ${say(wrong)}; ${say(missed)} are missed.${right}`
  );
}

const money = (cost) => rounded(1000 * cost, 1, Infinity);

export function onCost(model, view, before) {
  const { prevalence, costFn, costFp } = view.setting;
  const [nobody, everybody] = [prevalence * costFn, (1 - prevalence) * costFp];
  return (
    `Cheapest for your costs, of every λ and threshold: ${money(view.figures.expected_cost.value)} per 1,000 ${model.noun}, ` +
    `against ${money(before)} where you were, ${money(nobody)} if nobody is alarmed and ${money(everybody)} if everybody is.`
  );
}

export function onRecall(model, view) {
  return (
    `Of all points that catch at least ${percent(view.setting.floor)} of ${model.classes[1]} here, this one has the most precise ` +
    `alarms: ${percent(view.figures.precision.value)} of them are right. On new data the recall may be lower; for one that holds, ask for the certified recall.`
  );
}

export function onBudget(model, view) {
  const most = general(view.setting.budget, 4);
  if (!model.labelled) return `The lowest threshold that alarms at most ${most} of 1,000 ${model.noun}.`;
  return (
    `Of all points with at most ${most} alarms per 1,000 ${model.noun}, this one catches the most: ` +
    `${percent(view.figures.recall.value)} of ${model.classes[1]}.`
  );
}

export function onCertified(model, found, { floor, confidence, prevalence }) {
  const whom = model.certify.groups ? "groups (one row of each, drawn at random)" : model.classes[1];
  if (found.refusal) return `Not certified. ${found.refusal}`;
  if (found.needed) {
    const now = found.possible > 0.5 ? ` ${percent(Math.floor(found.possible * 1000) / 1000)} can be certified now.` : "";
    return (
      `Not certified: to promise ${percent(floor)} with ${general(100 * confidence, 4)} % confidence takes ${found.needed} positives` +
      `${found.split ? " held back from the choice of λ" : ""}; there are ${found.n}.${now}`
    );
  }
  const chosen = found.split ? " λ was chosen on other rows." : "";
  const travels = found.fpr === undefined ? "" : ` It wrongly alarms at most ${percent(found.fpr)} of the others, so at this prevalence at least ${percent(certifiedPrecision(found, floor, prevalence))} of the alarms are right.`;
  return (
    `Certified: with ${general(100 * confidence, 4)} % confidence this point catches at least ${percent(floor)} of new ${whom} from the same source, ` +
    `whatever the law of the scores.${travels} It accepts the ${ordinal(found.k)} lowest of ${grouped(found.n)} positives that were held back.${chosen} ` +
    `The confidence is that of a floor set beforehand, not of the best of several tries.`
  );
}

function certifiedPrecision({ fpr }, floor, prevalence) {
  const [hits, alarms] = [prevalence * floor, (1 - prevalence) * fpr];
  return hits / (hits + alarms);
}

function ordinal(k) {
  const end = k % 100 > 10 && k % 100 < 14 ? "th" : ({ 1: "st", 2: "nd", 3: "rd" })[k % 10] ?? "th";
  return `${k}${end}`;
}

export function certificateText(found, { floor, confidence }) {
  const cap = found.fpr === undefined ? "" : `, fpr <= ${general(found.fpr, 4)} (${found.raised} of ${found.negatives})`;
  return `at ${general(100 * confidence, 4)} %: recall >= ${general(floor, 4)} (${found.kept} of ${found.n})${cap}`;
}

// What a jump was for: as Python's str(Objective) spells it, and as Objective.to_json writes it.
export function objective(name, { prevalence, costFn, costFp, floor, budget }, own) {
  const elsewhere = prevalence === own ? null : prevalence;
  const share = elsewhere === null ? "" : ` at prevalence ${general(prevalence, 6)}`;
  const aim = { maximize: null, minimize: null, subject_to: {}, cost_fn: null, cost_fp: null, prevalence: elsewhere };
  if (name === "cost") {
    const origin = `minimise expected_cost (cost_fn ${general(costFn, 6)}, cost_fp ${general(costFp, 6)})${share}`;
    return { origin, aim: { ...aim, minimize: "expected_cost", cost_fn: costFn, cost_fp: costFp } };
  }
  if (name === "budget") {
    const cap = Number(`${budget}e-3`);
    const text = `maximise recall${share} subject to alert_rate <= ${general(cap, 6)}`;
    return { origin: text, aim: { ...aim, maximize: "recall", subject_to: { alert_rate: cap } } };
  }
  const origin = `maximise precision${share} subject to recall >= ${general(floor, 6)}`;
  return { origin, aim: { ...aim, maximize: "precision", subject_to: { recall: floor } } };
}

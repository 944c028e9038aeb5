// A recall that will hold: λ chosen on some rows, the threshold an order statistic of the other rows' positives. The same
// as Python's tune(maximize="precision", subject_to={"recall": floor}, confidence=…), but that Python, which chooses anew,
// sets aside as many rows as the floor at hand needs, and the page as many as 0.95 at 95 % does; and that Python certifies
// λ that have little in common all at once.

import { factor } from "./figures.js";
import { balancedAccuracy, bestLam } from "./search.js";

const MOST = 0.98; // the share of the risk that recall may take; the cap on FPR gets the rest (dial/certificates/bounds.py)

const logSum = (a, b) => Math.max(a, b) + Math.log1p(Math.exp(-Math.abs(a - b)));

// log P(Bin(n, q) <= k)
function logBinomial(k, n, q) {
  let term = n * Math.log1p(-q);
  let sum = term;
  for (let j = 1; j <= k; j++) {
    term += Math.log(n - j + 1) - Math.log(j) + Math.log(q) - Math.log1p(-q);
    sum = logSum(sum, term);
  }
  return Math.min(0, sum);
}

// The greatest k with P(Bin(n, 1 - floor) <= k - 1) <= risk; 0 where there is none (dial/certificates/bounds.py, rank_for).
export function rankFor(n, floor, risk) {
  let term = n * Math.log(floor);
  let sum = term;
  let k = 0;
  while (k < n && sum <= Math.log(risk)) {
    k++;
    term += Math.log(n - k + 1) - Math.log(k) + Math.log1p(-floor) - Math.log(floor);
    sum = logSum(sum, term);
  }
  return k;
}

// Clopper and Pearson's upper bound on a share of which `hits` in n were seen (dial/certificates/bounds.py, upper_share).
export function upperShare(hits, n, risk) {
  if (hits >= n) return 1;
  let [low, high] = [hits / n, 1];
  for (let turn = 0; turn < 60; turn++) {
    const middle = (low + high) / 2;
    if (logBinomial(hits, n, middle) > Math.log(risk)) low = middle;
    else high = middle;
  }
  return high;
}

export function positivesNeeded(floor, risk) {
  let n = Math.max(1, Math.floor(Math.log(risk) / Math.log(floor)) - 1);
  while (n * Math.log(floor) > Math.log(risk)) n++;
  return n;
}

// The λ whose alarms are most precise at a recall, as far as the choosing rows can tell.
function choose(model, floor, prevalence) {
  const { chosen_tp: tp, chosen_fp: fp } = model.streams;
  const sizes = model.certify.choosing;
  const scale = prevalence === model.prevalence ? 1 : factor(sizes, prevalence);
  const gains = new Float64Array(model.size);
  const balances = new Float64Array(model.size);
  for (let column = 0; column < model.size; column++) {
    let best = 0;
    for (let i = model.offsets[column]; i < model.offsets[column + 1]; i++) {
      if (tp[i] === 0 || (floor - tp[i] / sizes.positive) / floor > 1e-12) break; // ever fewer from here on
      const gain = tp[i] / (tp[i] + fp[i] * scale);
      if (gain <= best + 1e-12) continue;
      [best, balances[column]] = [gain, balancedAccuracy(tp[i], fp[i], sizes)];
    }
    gains[column] = best;
  }
  return bestLam(model, gains, balances);
}

// One float below the order statistic that a cut accepts, where Python puts it.
function nextTo(model, column, cut) {
  const { certified: thresholds, certifying_tp: accepted } = model.streams;
  let place = 0;
  for (let j = 0; j <= column; j++) {
    const [start, end] = [model.offsets[j], model.offsets[j + 1]];
    const until = j < column ? end : start + cut;
    for (let i = start; i < until; i++) if (accepted[i] > (i + 1 < end ? accepted[i + 1] : 0)) place++;
  }
  return thresholds[place];
}

// { column, cut, exact, k, n, kept, fpr } or { refusal } or { needed, possible, n }
export function certified(model, { floor, confidence, prevalence }) {
  const risk = 1 - confidence;
  const { refusal, n, split, certifying, groups } = model.certify;
  if (refusal) return { refusal };
  if (!(floor > 0 && floor < 1)) {
    return { refusal: "A certified recall must lie strictly between 0 and 100 %: no finite sample shows that nobody is missed. Ask for 99 %, say." };
  }
  const rank = (size) => rankFor(size, floor, MOST * risk) || rankFor(size, floor, risk);
  const k = rank(n);
  if (k === 0) return { n, needed: positivesNeeded(floor, risk), possible: n ? Math.exp(Math.log(risk) / n) : 0, split };
  const column = split ? choose(model, 1 - rank(certifying.positive) / (certifying.positive + 1), prevalence) : 0;
  const start = model.offsets[column];
  const accepted = model.streams.certifying_tp;
  let cut = 0;
  while (cut + 1 < model.lengths[column] && accepted[start + cut + 1] >= n - k + 1) cut++;
  const found = { column, cut, exact: nextTo(model, column, cut), k, n, split, kept: accepted[start + cut] };
  const left = risk - Math.exp(logBinomial(k - 1, n, 1 - floor));
  if (groups || left <= 1e-9) return found; // of rows in groups Python bounds the FPR by a band
  const raised = model.fp[start + cut] - (split ? model.streams.chosen_fp[start + cut] : 0);
  return { ...found, raised, negatives: certifying.negative, fpr: upperShare(raised, certifying.negative, left) };
}

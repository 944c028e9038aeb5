// A recall that will hold: λ chosen on one half, the threshold an order statistic of the other half's positives.

import { factor } from "./figures.js";
import { mostCentral } from "./search.js";

// The greatest k with P(Bin(n, 1 - floor) <= k - 1) <= risk; 0 where there is none (explorer/certifying.py, rank_for).
export function rankFor(n, floor, risk) {
  let term = n * Math.log(floor); // log P(Bin = 0)
  let sum = term;
  let k = 0;
  while (k <= n && sum <= Math.log(risk)) {
    k++;
    term += Math.log(n - k + 1) - Math.log(k) + Math.log1p(-floor) - Math.log(floor);
    const [more, less] = sum > term ? [sum, term] : [term, sum];
    sum = more + Math.log1p(Math.exp(less - more));
  }
  return Math.min(k, n);
}

export function positivesNeeded(floor, risk) {
  let n = Math.max(1, Math.floor(Math.log(risk) / Math.log(floor)) - 1);
  while (n * Math.log(floor) > Math.log(risk)) n++;
  return n;
}

export const floorWithin = (n, risk) => Math.exp(Math.log(risk) / n);

// The λ whose alarms are most precise at the floor, as far as the choosing half can tell.
function choose(model, floor, prevalence) {
  const { chosen_tp: tp, chosen_fp: fp } = model.streams;
  const sizes = model.certify.choosing;
  const scale = factor(sizes, prevalence);
  const gains = new Float64Array(model.size);
  for (let column = 0; column < model.size; column++) {
    let best = 0;
    for (let i = model.offsets[column]; i < model.offsets[column + 1]; i++) {
      if (tp[i] === 0 || tp[i] / sizes.positive < floor - 1e-12) break; // ever fewer from here on
      best = Math.max(best, tp[i] / (tp[i] + fp[i] * scale));
    }
    gains[column] = best;
  }
  return mostCentral(model, gains);
}

// { column, cut, k, n } or { refusal }
export function certified(model, { floor, confidence, prevalence }) {
  const risk = 1 - confidence;
  const { refusal, n, split } = model.certify;
  if (refusal) return { refusal };
  if (!(floor > 0 && floor < 1)) {
    return { refusal: "No finite sample certifies that nobody is missed: ask for a floor below 1, such as 0.99." };
  }
  const k = rankFor(n, floor, risk);
  if (k === 0) return { n, needed: positivesNeeded(floor, risk), possible: n ? floorWithin(n, risk) : 0, split };
  const column = split ? choose(model, floor, prevalence) : 0;
  const accepted = model.streams.certifying_tp;
  let cut = 0;
  while (cut + 1 < model.lengths[column] && accepted[model.offsets[column] + cut + 1] >= n - k + 1) cut++;
  return { column, cut, k, n, split };
}

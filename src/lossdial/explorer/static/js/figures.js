// What is printed about a threshold: explorer/figures.py, operation by operation.

import { fixed } from "./format.js";

export const Z = 1.959963984540054;

const estimate = (value, low, high) => ({ value, low, high });
const NONE = estimate(NaN, NaN, NaN);

export function wilson(rate, n) {
  const zz = Z * Z;
  const scale = 1 + zz / n;
  const centre = (rate + zz / (2 * n)) / scale;
  const half = (Z * Math.sqrt((rate * (1 - rate)) / n + zz / (4 * n * n))) / scale;
  const low = rate === 0 ? 0 : Math.max(0, centre - half);
  const high = rate === 1 ? 1 : Math.min(1, centre + half);
  return estimate(rate, low, high);
}

function total(a, x, b, y) {
  const value = a * x.value + b * y.value;
  const low = [a * (x.value - x.low), b * (y.value - y.low)];
  const high = [a * (x.high - x.value), b * (y.high - y.value)];
  return estimate(
    value,
    value - Math.sqrt(low[0] * low[0] + low[1] * low[1]),
    value + Math.sqrt(high[0] * high[0] + high[1] * high[1]),
  );
}

function ratioLow(x, y) {
  const product = x.value * y.value;
  const inner = x.low * (2 * x.value - x.low);
  if (inner <= 0) return 0;
  const under = product * product - inner * (y.high * (2 * y.value - y.high));
  return inner / (product + Math.sqrt(Math.max(0, under)));
}

function ratioHigh(x, y) {
  const product = x.value * y.value;
  const outer = y.low * (2 * y.value - y.low);
  if (outer <= 0) return Infinity;
  const under = product * product - outer * (x.high * (2 * x.value - x.high));
  return (product + Math.sqrt(Math.max(0, under))) / outer;
}

const complement = (x) => estimate(1 - x.value, 1 - x.high, 1 - x.low);

export const prevalenceOf = (sizes) => sizes.positive / (sizes.positive + sizes.negative);

export function factor(sizes, prevalence) {
  if (prevalence === prevalenceOf(sizes)) return 1;
  return (((1 - prevalence) / prevalence) * sizes.positive) / sizes.negative;
}

const tprOf = (tp, sizes) => wilson(tp / sizes.positive, sizes.effective_positive);
const fprOf = (fp, sizes) => wilson(fp / sizes.negative, sizes.effective_negative);

export function precision(tp, fp, sizes, prevalence) {
  if (tp === 0 && fp === 0) return NONE;
  const [tpr, fpr] = [tprOf(tp, sizes), fprOf(fp, sizes)];
  const odds = (1 - prevalence) / prevalence;
  const [low, high] = [ratioLow(tpr, fpr), ratioHigh(tpr, fpr)];
  const value = tp / (tp + fp * factor(sizes, prevalence));
  return estimate(value, low / (low + odds), high === Infinity ? 1 : high / (high + odds));
}

export function npv(tp, fp, sizes, prevalence) {
  if (tp === sizes.positive && fp === sizes.negative) return NONE;
  const [passed, missed] = [complement(fprOf(fp, sizes)), complement(tprOf(tp, sizes))];
  const odds = prevalence / (1 - prevalence);
  const [low, high] = [ratioLow(passed, missed), ratioHigh(passed, missed)];
  const [tn, fn] = [(sizes.negative - fp) * factor(sizes, prevalence), sizes.positive - tp];
  return estimate(tn / (tn + fn), low / (low + odds), high === Infinity ? 1 : high / (high + odds));
}

export function f1(tp, fp, sizes, prevalence) {
  const [tpr, fpr] = [tprOf(tp, sizes), fprOf(fp, sizes)];
  const odds = (1 - prevalence) / prevalence;
  const over = estimate(1 + odds * fpr.value, 1 + odds * fpr.low, 1 + odds * fpr.high);
  const [least, most] = [ratioLow(over, tpr), ratioHigh(over, tpr)];
  const value = (2 * tp) / (tp + fp * factor(sizes, prevalence) + sizes.positive);
  return estimate(value, most === Infinity ? 0 : 2 / (1 + most), Math.min(1, 2 / (1 + least)));
}

export function expectedCost(tp, fp, sizes, setting) {
  const [miss, alarm] = [setting.prevalence * setting.costFn, (1 - setting.prevalence) * setting.costFp];
  return total(miss, complement(tprOf(tp, sizes)), alarm, fprOf(fp, sizes));
}

export function netBenefit(tp, fp, sizes, prevalence, odds) {
  const weight = (1 - prevalence) * odds;
  const shifted = total(prevalence, tprOf(tp, sizes), weight, complement(fprOf(fp, sizes)));
  return estimate(shifted.value - weight, shifted.low - weight, shifted.high - weight);
}

export function alertRate(tp, fp, sizes, prevalence) {
  return total(prevalence, tprOf(tp, sizes), 1 - prevalence, fprOf(fp, sizes));
}

export function figuresAt(tp, fp, sizes, setting) {
  const share = setting.prevalence;
  const [tpr, fpr] = [tprOf(tp, sizes), fprOf(fp, sizes)];
  return {
    recall: tpr,
    precision: precision(tp, fp, sizes, share),
    specificity: complement(fpr),
    npv: npv(tp, fp, sizes, share),
    alert_rate: alertRate(tp, fp, sizes, share),
    f1: f1(tp, fp, sizes, share),
    accuracy: total(share, tpr, 1 - share, complement(fpr)),
    balanced_accuracy: total(0.5, tpr, 0.5, complement(fpr)),
    expected_cost: expectedCost(tp, fp, sizes, setting),
    net_benefit: netBenefit(tp, fp, sizes, share, setting.costFp / setting.costFn),
  };
}

// Cleared, referred and acted upon of 1,000, by class: what is above either end of a referral band.
export function referred(low, high, sizes, prevalence) {
  const [below, above] = [low, high].map(({ tp, fp }) => people(tp, fp, sizes, prevalence));
  const part = (positive, negative) => ({ positive, negative, all: positive + negative });
  return {
    clear: part(below.missed, below.passed),
    refer: part(below.caught - above.caught, below.false_alarms - above.false_alarms),
    act: part(above.caught, above.false_alarms),
  };
}

// The thousand of `people` in whole units of 10^-digits that add up; more digits where a part that is not zero is less than one.
export function addingUp(parts, digits) {
  for (; ; digits++) {
    const scale = 10 ** digits;
    const units = (x) => Math.floor(x * scale + 0.5);
    const [positive, caught, alarms] = [parts.caught + parts.missed, parts.caught, parts.caught + parts.false_alarms].map(units);
    const wrong = alarms - caught; // so that the alarms are the number that stands in the tile beside
    const counts = { caught, missed: positive - caught, false_alarms: wrong, passed: 1000 * scale - positive - wrong };
    const seen = Object.entries(parts).every(([kind, part]) => part <= 1e-9 || Math.min(part * scale, counts[kind]) >= 1);
    if (digits < 6 && !seen) continue;
    return { ...counts, text: (count) => fixed(count / scale, digits) };
  }
}

export function people(tp, fp, sizes, prevalence) {
  const [tpr, fpr] = [tp / sizes.positive, fp / sizes.negative];
  const [sick, well] = [1000 * prevalence, 1000 * (1 - prevalence)];
  return { caught: sick * tpr, missed: sick * (1 - tpr), false_alarms: well * fpr, passed: well * (1 - fpr) };
}

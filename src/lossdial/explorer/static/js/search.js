// The best threshold of every λ and the best of all, chosen as dial.objectives.select does: figures closer than SAME are
// equal; among equals the greatest recall within a λ, then the most central λ.

import { alertRate, expectedCost, factor, precision, wilson } from "./figures.js";

const SAME = 1e-12;

function bestCut(model, column, gain, legal, scratch) {
  const [start, length] = [model.offsets[column], model.lengths[column]];
  const { tp, fp } = model;
  let most = -Infinity;
  for (let i = 0; i <= length; i++) {
    const t = i < length ? tp[start + i] : 0;
    const f = i < length ? fp[start + i] : 0;
    scratch[i] = legal(t, f) ? gain(t, f) : -Infinity;
    if (scratch[i] > most) most = scratch[i];
  }
  let i = 0;
  while (scratch[i] < most - SAME) i++;
  return i;
}

function atLeast(share, floor) {
  return Math.max(floor - share, 0) / (floor || 1) <= SAME;
}

// What can be asked for: gain (more is better) and legality as functions of the accepted; `shown` is the figure itself.
export const aims = {
  cost: (sizes, setting) => {
    const [miss, alarm] = [setting.prevalence * setting.costFn, (1 - setting.prevalence) * setting.costFp];
    const [p, n] = [sizes.positive, sizes.negative];
    return {
      gain: (tp, fp) => -(miss * (1 - tp / p) + alarm * (fp / n)),
      legal: () => true,
      shown: (tp, fp) => expectedCost(tp, fp, sizes, setting),
      greater: false,
    };
  },
  recall: (sizes, setting) => {
    const [p, scale] = [sizes.positive, factor(sizes, setting.prevalence)];
    return {
      gain: (tp, fp) => (tp === 0 ? 0 : tp / (tp + fp * scale)),
      legal: (tp) => atLeast(tp / p, setting.floor),
      shown: (tp, fp) => precision(tp, fp, sizes, setting.prevalence),
      greater: true,
    };
  },
  budget: (sizes, setting) => {
    const [p, n, share, cap] = [sizes.positive, sizes.negative, setting.prevalence, setting.budget / 1000];
    return {
      gain: (tp) => tp / p,
      legal: (tp, fp) => Math.max(share * (tp / p) + (1 - share) * (fp / n) - cap, 0) / (cap || 1) <= SAME,
      shown: (tp) => wilson(tp / p, sizes.effective_positive),
      greater: true,
    };
  },
};

export function cutFor(model, column, aim) {
  return bestCut(model, column, aim.gain, aim.legal, new Float64Array(model.lengths[column] + 1));
}

// Every λ at its best threshold.
export function everyLam(model, aim) {
  const cuts = new Uint32Array(model.size);
  const gains = new Float64Array(model.size);
  const scratch = new Float64Array(Math.max(...model.lengths) + 1);
  for (let column = 0; column < model.size; column++) {
    const cut = bestCut(model, column, aim.gain, aim.legal, scratch);
    cuts[column] = cut;
    gains[column] = scratch[cut];
  }
  return { cuts, gains, best: mostCentral(model, gains) };
}

export function mostCentral(model, gains) {
  let most = -Infinity;
  for (const gain of gains) most = Math.max(most, gain);
  return model.central.find((column) => gains[column] >= most - SAME);
}

// Whether two figures, each with its interval, may differ by chance alone; as if seen on separate samples, hence cautious.
export function alike(a, b) {
  const [more, less] = a.value >= b.value ? [a, b] : [b, a];
  const [down, up] = [more.value - more.low, less.high - less.value];
  return more.value - less.value <= Math.sqrt(down * down + up * up);
}

export function alertsOf(model, column, cut, prevalence) {
  const { tp, fp } = model.counts(column, cut);
  if (!model.labelled) return wilson(fp / model.rows.all, model.rows.all);
  return alertRate(tp, fp, model.sizes, prevalence);
}

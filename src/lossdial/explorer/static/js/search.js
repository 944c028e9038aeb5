// The best threshold of every λ and the best of all, chosen as dial.choice.selection.select does: figures closer than SAME are
// equal; among equals the greatest recall within a λ, then the λ of the greatest balanced accuracy, then the plainest.

import { expectedCost, factor, precision, wilson } from "./figures.js";

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

// What can be asked for: gain (more is better) and legality as functions of the accepted; `shown` is the figure itself,
// `slopes` how it moves with the chance errors of TPR and FPR, the threshold moving along as the limit wants; `rho` is dFPR/dTPR.
export const objectives = {
  cost: (sizes, setting) => {
    const [miss, alarm] = [setting.prevalence * setting.costFn, (1 - setting.prevalence) * setting.costFp];
    const [p, n] = [sizes.positive, sizes.negative];
    return {
      gain: (tp, fp) => -(miss * (1 - tp / p) + alarm * (fp / n)),
      legal: () => true,
      shown: (tp, fp) => expectedCost(tp, fp, sizes, setting),
      slopes: () => [-miss, alarm],
      greater: false,
    };
  },
  recall: (sizes, setting) => {
    const [p, scale] = [sizes.positive, factor(sizes, setting.prevalence)];
    return {
      gain: (tp, fp) => (tp === 0 ? 0 : tp / (tp + fp * scale)),
      legal: (tp) => atLeast(tp / p, setting.floor),
      shown: (tp, fp) => precision(tp, fp, sizes, setting.prevalence),
      slopes: (tp, fp, rho) => {
        const [t, f, odds] = [tp / p, fp / sizes.negative, (1 - setting.prevalence) / setting.prevalence];
        const all = (t + odds * f) ** 2;
        const byFpr = all ? (-odds * t) / all : 0;
        return [-byFpr * rho, byFpr]; // the floor holds TPR where it is, and FPR gives way
      },
      greater: true,
    };
  },
  budget: (sizes, setting) => {
    const [p, n, share, cap] = [sizes.positive, sizes.negative, setting.prevalence, setting.budget / 1000];
    return {
      gain: (tp) => tp / p,
      legal: (tp, fp) => Math.max(share * (tp / p) + (1 - share) * (fp / n) - cap, 0) / (cap || 1) <= SAME,
      shown: (tp) => wilson(tp / p, sizes.effective_positive),
      slopes: (tp, fp, rho) => {
        const all = share + (1 - share) * rho;
        return all ? [1 - share / all, -(1 - share) / all] : [1, 0];
      },
      greater: true,
    };
  },
};

export function cutFor(model, column, objective) {
  return bestCut(model, column, objective.gain, objective.legal, new Float64Array(model.lengths[column] + 1));
}

// Every λ at its best threshold.
export function everyLam(model, objective) {
  const cuts = new Uint32Array(model.size);
  const gains = new Float64Array(model.size);
  const balances = new Float64Array(model.size);
  const scratch = new Float64Array(Math.max(...model.lengths) + 1);
  for (let column = 0; column < model.size; column++) {
    const cut = bestCut(model, column, objective.gain, objective.legal, scratch);
    cuts[column] = cut;
    gains[column] = scratch[cut];
    const { tp, fp } = model.counts(column, cut);
    balances[column] = balancedAccuracy(tp, fp, model.sizes);
  }
  return { cuts, best: bestLam(model, gains, balances) };
}

export const balancedAccuracy = (tp, fp, sizes) => (tp / sizes.positive + 1 - fp / sizes.negative) / 2;

export function bestLam(model, gains, balances) {
  const most = Math.max(...gains);
  const equal = model.plainest.filter((column) => gains[column] >= most - SAME);
  const fairest = Math.max(...equal.map((column) => balances[column]));
  return equal.find((column) => balances[column] >= fairest - SAME);
}

// Of one class: the variance of a·[accepted at λ] - b·[accepted at the best λ] over its witnesses. Half a witness more is
// taken to differ than do, since none among a few hundred does not mean none.
function spread(places, shares, column, cut, best, bestCut, a, b) {
  const [at, ref] = [column * shares.length, best * shares.length];
  let [mean, square] = [0, 0];
  for (let i = 0; i < shares.length; i++) {
    const value = (places[at + i] > cut ? a : 0) - (places[ref + i] > bestCut ? b : 0);
    mean += shares[i] * value;
    square += shares[i] * value * value;
  }
  return Math.max(0, square - mean * mean) + (0.5 * Math.max(a * a, b * b)) / shares.length;
}

// dFPR/dTPR about a cut, over a twentieth of the positives to either side.
function steepness(model, column, cut) {
  const length = model.lengths[column];
  const reach = Math.max(2, Math.round(length / 20));
  const [low, high] = [Math.max(0, cut - reach), Math.min(length, cut + reach)].map((at) => model.counts(column, at));
  const rise = (low.tp - high.tp) / model.sizes.positive;
  return rise > 0 ? (low.fp - high.fp) / model.sizes.negative / rise : 0;
}

// The standard deviation of the difference between each λ and the best, both judging the same samples.
export function deviations(model, objective, cuts, best) {
  const { streams, sizes } = model;
  const slopesAt = (column) => {
    const { tp, fp } = model.counts(column, cuts[column]);
    return objective.slopes(tp, fp, steepness(model, column, cuts[column]));
  };
  const there = slopesAt(best);
  return Array.from(cuts, (cut, column) => {
    const here = slopesAt(column);
    const parts = ["positive", "negative"].map((side, k) => {
      const [places, shares] = [streams[`places ${side}`], streams[`shares ${side}`]];
      return spread(places, shares, column, cut, best, cuts[best], here[k], there[k]) / sizes[`effective_${side}`];
    });
    return Math.sqrt(parts[0] + parts[1]);
  });
}

// The data of the page: for each λ its thresholds that matter and what each accepts.

import { prevalenceOf } from "./figures.js";

const indexNearest = (sorted, value) => {
  let best = 0;
  for (let i = 1; i < sorted.length; i++) if (Math.abs(sorted[i] - value) < Math.abs(sorted[best] - value)) best = i;
  return best;
};

export const sigmoid = (margin) => 1 / (1 + Math.exp(-margin));
export const logOdds = (share) => Math.log(share) - Math.log1p(-share);
const softplus = (x) => Math.max(x, 0) + Math.log1p(Math.exp(-Math.abs(x)));

function calibrated(map, score) {
  if (map === null) return score;
  if (map.kind === "temperature") return score / map.temperature;
  if (map.kind === "platt") return map.slope * score + map.intercept;
  if (map.kind === "beta") return map.c - map.a * softplus(-score) + map.b * softplus(score);
  const { margins, probabilities } = map;
  const above = margins.findIndex((margin) => margin > score);
  if (above <= 0) return logOdds(probabilities[above < 0 ? margins.length - 1 : 0]);
  const part = (score - margins[above - 1]) / (margins[above] - margins[above - 1]);
  return logOdds(probabilities[above - 1] + part * (probabilities[above] - probabilities[above - 1]));
}

export class Model {
  constructor(payload, streams) {
    Object.assign(this, payload);
    this.streams = streams;
    this.labelled = payload.mode === "labelled";
    this.size = payload.lams.length;
    this.lengths = streams.lengths;
    this.offsets = new Uint32Array(this.size + 1);
    for (let j = 0; j < this.size; j++) this.offsets[j + 1] = this.offsets[j] + this.lengths[j];
    this.thresholds = streams.thresholds;
    this.tp = streams.tp;
    this.fp = streams.fp;
    this.prevalence = this.labelled ? prevalenceOf(payload.sizes) : NaN;
    this.axes = payload.names.map((name, k) => {
      const values = [...new Set(payload.lams.map((lam) => lam[k]))].sort((a, b) => a - b);
      return { name, position: k, values };
    });
    const end = (text) => Number(String(text).replace("inf", "Infinity"));
    this.referrals = payload.referrals.map((band) => ({ ...band, low: end(band.low), high: end(band.high) }));
    this.free = this.axes.filter((axis) => axis.values.length > 1);
  }

  // Cut `lengths[column]` is the threshold above every score: it accepts nobody.
  none(column) {
    return this.lengths[column];
  }

  counts(column, cut) {
    if (cut >= this.lengths[column]) return { tp: 0, fp: 0 };
    const at = this.offsets[column] + cut;
    return { tp: this.labelled ? this.tp[at] : 0, fp: this.fp[at] };
  }

  threshold(column, cut) {
    return cut >= this.lengths[column] ? Infinity : this.thresholds[this.offsets[column] + cut];
  }

  // A score as the calibrated probability of its λ, where a share `prevalence` is positive (dial/calibration.py, apply).
  probability(column, score, prevalence) {
    if (!Number.isFinite(score)) return score > 0 ? 1 : 0;
    return sigmoid(calibrated(this.calibrations[column], score) + logOdds(prevalence) - logOdds(this.prevalence));
  }

  // The cut whose threshold is nearest, or the same where it is one of them.
  cutNear(column, threshold) {
    const [start, length] = [this.offsets[column], this.lengths[column]];
    if (threshold === Infinity) return length;
    let [low, high] = [0, length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.thresholds[start + middle] < threshold) low = middle + 1;
      else high = middle;
    }
    if (low === length) return length - 1;
    if (low > 0 && threshold - this.thresholds[start + low - 1] < this.thresholds[start + low] - threshold) low--;
    return low;
  }

  // The highest cut of a column that still accepts so many positives.
  cutKeeping(column, count) {
    const [start, length] = [this.offsets[column], this.lengths[column]];
    if (count <= 0) return length;
    let [low, high] = [0, length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tp[start + middle] >= count) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  // The λ nearest to wanted values, those of the axis `first` counting before all others.
  nearest(wanted, first = -1) {
    let [best, least] = [0, Infinity];
    const scale = this.axes.map(({ values }) => values[values.length - 1] - values[0] || 1);
    for (const column of this.plainest) {
      let distance = 0;
      for (let k = 0; k < wanted.length; k++) {
        const off = Math.abs(this.lams[column][k] - wanted[k]) / scale[k];
        distance += off * off * (k === first ? 1e9 : 1);
      }
      if (distance < least - 1e-15) [best, least] = [column, distance];
    }
    return best;
  }

  along(position, index, column) {
    const wanted = this.lams[column].slice();
    wanted[position] = this.axes[position].values[index];
    return this.nearest(wanted, position);
  }

  indexOn(position, column) {
    return indexNearest(this.axes[position].values, this.lams[column][position]);
  }
}

// Precision against recall and TPR against FPR: every λ faint, the best over all, the chosen one with its band.

import { factor, precision, wilson } from "./figures.js";
import { rounded } from "./format.js";
import { Plot, legend } from "./plot.js";
import { byId } from "./dom.js";

const FEW = 90; // points of a faint curve

// For each recall that can be reached, the fewest false alarms of any λ.
export function frontier(model) {
  const steps = model.weighted ? 1000 : Math.min(model.rows.positive, 4000);
  const level = (k) => (k * model.sizes.positive) / steps;
  const least = new Float64Array(steps + 1).fill(Infinity);
  least[0] = 0;
  for (let column = 0; column < model.size; column++) {
    let at = model.offsets[column + 1] - 1;
    for (let k = 1; k <= steps; k++) {
      while (at > model.offsets[column] && model.tp[at] < level(k) - 1e-9) at--;
      if (model.fp[at] < least[k]) least[k] = model.fp[at];
    }
  }
  return Array.from(least, (fp, k) => ({ tp: level(k), fp }));
}

function hull(points) {
  const kept = [];
  for (const p of points) {
    while (kept.length > 1) {
      const [a, b] = kept.slice(-2);
      if ((b[0] - a[0]) * (p[1] - a[1]) - (b[1] - a[1]) * (p[0] - a[0]) < 0) break;
      kept.pop();
    }
    kept.push(p);
  }
  return kept;
}

function thinned(model, column, most) {
  const length = model.lengths[column];
  const count = Math.min(length, most);
  return Array.from({ length: count }, (_, k) => Math.round((k * (length - 1)) / Math.max(1, count - 1)));
}

function nearestCut(model, column, distance) {
  let [best, least] = [0, Infinity];
  for (let cut = 0; cut <= model.lengths[column]; cut++) {
    const { tp, fp } = model.counts(column, cut);
    const off = distance(tp, fp);
    if (off < least) [best, least] = [cut, off];
  }
  return best;
}

class Curves {
  constructor(id, model, label, onCut) {
    this.model = model;
    this.host = byId(id);
    this.onCut = onCut;
    this.plot = new Plot(this.host.querySelector(".plot"), { ratio: 0.86, label, pick: (x, y, plot) => this.picked(x, y, plot) });
  }

  picked(x, y, plot) {
    const place = (u, v) => [plot.x(u), plot.y(v)];
    const wanted = place(x, y);
    this.onCut(
      nearestCut(this.model, this.column, (tp, fp) => {
        const [u, v] = place(...this.at(tp, fp));
        return (u - wanted[0]) ** 2 + (v - wanted[1]) ** 2;
      }),
    );
  }

  // The faint layer: only where what it shows has changed.
  background(key) {
    if (this.key === key) return;
    this.key = key;
    const { model, plot } = this;
    const curves = [];
    for (let column = 0; column < model.size; column++) {
      curves.push(
        thinned(model, column, FEW).map((cut) => {
          const { tp, fp } = model.counts(column, cut);
          return this.at(tp, fp);
        }),
      );
    }
    const colour = getComputedStyle(document.documentElement).getPropertyValue("--faint");
    plot.faint(curves, colour, Math.min(0.45, Math.max(0.07, 14 / model.size)));
  }

  points(points) {
    for (const { letter, tp, fp } of points) if (tp + fp > 0) this.plot.badge(letter, ...this.at(tp, fp));
  }
}

export class PrecisionRecall extends Curves {
  at(tp, fp) {
    return [tp / this.model.sizes.positive, tp ? tp / (tp + fp * this.scale) : 0];
  }

  draw(view) {
    const { model, plot } = this;
    const { sizes } = model;
    const { column, prevalence, floor } = view.state;
    this.column = column;
    this.scale = factor(sizes, prevalence);
    plot.begin({ domain: [0, 1], label: "recall: share of positives caught" }, { domain: [0, 1], label: "precision" });
    plot.path("dotted", [[0, prevalence], [1, prevalence]]);
    plot.path("limit", [[floor, 0], [floor, 1]]);
    const [line, up, down] = [[], [], []];
    for (const cut of thinned(model, column, 400)) {
      const { tp, fp } = model.counts(column, cut);
      const share = precision(tp, fp, sizes, prevalence);
      const recall = tp / sizes.positive;
      line.push([recall, share.value]);
      up.push([recall, share.high]);
      down.push([recall, share.low]);
    }
    plot.area("band", up, down);
    plot.path("best", view.frontier.slice(1).map(({ tp, fp }) => this.at(tp, fp)));
    plot.path("now", line);
    this.points(view.points);
    const { recall, precision: share } = view.figures;
    if (!Number.isNaN(share.value)) {
      plot.line("cross", [recall.value, share.low], [recall.value, share.high]);
      plot.line("cross", [recall.low, share.value], [recall.high, share.value]);
      plot.dot("here", recall.value, share.value);
    }
    plot.end(
      Number.isNaN(share.value)
        ? "No alarm is raised at this point."
        : `At this point recall is ${rounded(recall.value)} and precision ${rounded(share.value)}.`,
    );
    legend(this.host.querySelector(".legend"), [
      ["now", "this λ, 95 % band"],
      ...(model.size > 1 ? [["best", "best over λ"], ["faint", `all ${model.size} λ`]] : []),
      ["limit", "recall floor"],
      ["dotted", "alarms at random"],
    ]);
    return () => this.background(`${prevalence} ${plot.width} ${view.state.theme}`);
  }
}

export class Roc extends Curves {
  at(tp, fp) {
    return [fp / this.model.sizes.negative, tp / this.model.sizes.positive];
  }

  draw(view) {
    const { model, plot } = this;
    const { sizes } = model;
    const { column, floor } = view.state;
    this.column = column;
    plot.begin({ domain: [0, 1], label: "false positive rate" }, { domain: [0, 1], label: "true positive rate (recall)" });
    plot.path("dotted", [[0, 0], [1, 1]]);
    plot.path("limit", [[0, floor], [1, floor]]);
    const [line, up, down] = [[], [], []];
    for (const cut of thinned(model, column, 400)) {
      const { tp, fp } = model.counts(column, cut);
      const rate = wilson(tp / sizes.positive, sizes.effective_positive);
      const x = fp / sizes.negative;
      line.push([x, rate.value]);
      up.push([x, rate.high]);
      down.push([x, rate.low]);
    }
    plot.area("band", up, down);
    this.hull ??= hull([...view.frontier.map(({ tp, fp }) => this.at(tp, fp)), [1, 1]]);
    plot.path("best", this.hull);
    plot.path("now", [[1, 1], ...line, [0, 0]]);
    this.points(view.points);
    const { recall, specificity } = view.figures;
    const fpr = { value: 1 - specificity.value, low: 1 - specificity.high, high: 1 - specificity.low };
    plot.line("cross", [fpr.value, recall.low], [fpr.value, recall.high]);
    plot.line("cross", [fpr.low, recall.value], [fpr.high, recall.value]);
    plot.dot("here", fpr.value, recall.value);
    plot.end(`At this point the true positive rate is ${rounded(recall.value)}, the false positive rate ${rounded(fpr.value)}.`);
    legend(this.host.querySelector(".legend"), [
      ["now", "this λ, 95 % band"],
      ...(model.size > 1 ? [["best", "envelope over λ"], ["faint", `all ${model.size} λ`]] : [["best", "envelope"]]),
      ["limit", "recall floor"],
    ]);
    return () => this.background(`${plot.width} ${view.state.theme}`);
  }
}


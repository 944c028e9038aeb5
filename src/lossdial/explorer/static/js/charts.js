// Expected cost over the threshold, scores by class, reliability, decision curve.

import { byId, draw } from "./dom.js";
import { expectedCost, netBenefit, wilson } from "./figures.js";
import { general, percent, rounded } from "./format.js";
import { logOdds, sigmoid } from "./model.js";
import { Plot, legend } from "./plot.js";
import { thresholdOf } from "./state.js";

const slice = (array, column, width) => Array.from(array.subarray(column * width, (column + 1) * width));

class Chart {
  constructor(id, model, options) {
    this.model = model;
    this.host = byId(id);
    this.plot = new Plot(this.host.querySelector(".plot"), options);
    this.legend = this.host.querySelector(".legend");
  }
}

export class CostChart extends Chart {
  constructor(model, onThreshold) {
    super("cost", model, { label: "Expected cost over the threshold", pick: (x) => onThreshold(x) });
  }

  draw(view) {
    const { model, plot } = this;
    const { column, cut } = view.state;
    const [start, length] = [model.offsets[column], model.lengths[column]];
    const step = Math.max(1, Math.floor(length / 400));
    const [line, up, down] = [[], [], []];
    for (let i = 0; i < length; i += step) {
      const cost = expectedCost(model.tp[start + i], model.fp[start + i], model.sizes, view.setting);
      const x = model.thresholds[start + i];
      line.push([x, 1000 * cost.value]);
      up.push([x, 1000 * cost.high]);
      down.push([x, 1000 * cost.low]);
    }
    const nobody = 1000 * view.setting.prevalence * view.setting.costFn;
    const here = view.figures.expected_cost;
    const top = 1.12 * Math.max(...line.map((p) => p[1]), nobody * 0.2);
    const ends = [line[0][0], line[line.length - 1][0]];
    const room = (ends[1] - ends[0]) * 0.03 || 1;
    const across = ends[0] < ends[1] ? ends : [ends[0] - room, ends[1] + room];
    plot.begin(
      { domain: [ends[0] - room, ends[1] + room], label: "threshold on the score" },
      { domain: [0, top], label: `cost per 1,000 ${model.noun}` },
    );
    plot.area("band", up, down);
    plot.path("dashed", [[across[0], nobody], [across[1], nobody]]);
    const best = 1000 * view.bestCost.value;
    plot.path("best", [[across[0], best], [across[1], best]]);
    plot.path("now", line);
    if (cut < length) {
      const x = model.threshold(column, cut);
      plot.line("cross", [x, 1000 * here.low], [x, 1000 * here.high]);
      plot.dot("here", x, 1000 * here.value);
    }
    plot.end(`Here the cost is ${rounded(1000 * here.value, 1, Infinity)} per 1,000 ${model.noun}; the least of all is ${rounded(best, 1, Infinity)}.`);
    legend(this.legend, [
      ["now", "this λ, 95 % band"],
      ["best", "least over every λ and threshold"],
      ["dashed", "if nobody is alarmed"],
    ]);
  }
}

export class ScoresChart extends Chart {
  constructor(model, onThreshold) {
    super("scores", model, { label: "Scores by class", left: 54, pick: (x) => onThreshold(x) });
  }

  draw(view) {
    const { model, plot } = this;
    const { column, cut } = view.state;
    const bins = model.bins.histogram;
    const [low, high] = slice(model.streams["histogram ends"], column, 2);
    const share = (name) => {
      const counts = slice(model.streams[name], column, bins);
      const sum = counts.reduce((a, b) => a + b, 0) || 1;
      return counts.map((count) => count / sum);
    };
    const negative = share("histogram negative");
    const positive = model.labelled ? share("histogram positive") : null;
    const top = 1.08 * Math.max(...negative, ...(positive ?? [0]));
    const names = model.classes;
    const label = model.labelled ? `share of each class` : "share of all";
    plot.begin(
      { domain: [low, high], label: "score (log-odds before calibration)" },
      { domain: [positive ? -top : 0, top], label, text: (v) => general(Math.abs(v), 3) },
    );
    const width = (high - low) / bins;
    const bar = (name, k, value) => {
      if (value === 0) return;
      const [x0, x1] = [plot.x(low + k * width) + 0.5, plot.x(low + (k + 1) * width) - 0.5];
      plot.add(draw("path", { class: name, d: `M${x0} ${plot.y(0)}V${plot.y(value)}H${x1}V${plot.y(0)}Z` }));
    };
    negative.forEach((value, k) => bar("bar-negative", k, positive ? -value : value));
    positive?.forEach((value, k) => bar("bar-positive", k, value));
    const bands = model.referrals.filter((band) => band.column === column);
    for (const band of bands) {
      const [from, to] = [Math.max(low, band.low), Math.min(high, band.high)].map((end) => plot.x(Math.min(high, Math.max(low, end))));
      const [top0, height] = [plot.y(top), plot.y(positive ? -top : 0) - plot.y(top)];
      plot.add(draw("rect", { class: "referred", x: from, y: top0, width: Math.max(1, to - from), height }));
    }
    const threshold = thresholdOf(model, view.state);
    if (threshold >= low && threshold <= high) plot.line("limit", [threshold, positive ? -top : 0], [threshold, top]);
    const where = Number.isFinite(threshold) ? `The threshold is ${general(threshold, 4)}, the model's own probability ${general(sigmoid(threshold), 3)}.` : "No score is above the threshold.";
    plot.end(where);
    legend(this.legend, [
      ...(positive ? [["bar-positive thick", `${names[1]} (up)`], ["bar-negative thick", `${names[0]} (down)`]] : [["bar-negative thick", "all rows"]]),
      ["limit", "threshold: an alarm to its right"],
      ...(bands.length ? [["referred thick", "referred to a person"]] : []),
    ]);
  }
}

export class ReliabilityChart extends Chart {
  constructor(model) {
    super("reliability", model, { label: "Reliability: share of positives against predicted probability", ratio: 0.8 });
  }

  draw(view) {
    const { model, plot } = this;
    const bins = model.bins.reliability;
    const read = (name) => slice(model.streams[`reliability ${name}`], view.state.column, bins);
    const [size, hits, raw, calibrated] = ["size", "hits", "raw", "calibrated"].map(read);
    const all = model.sizes.positive + model.sizes.negative;
    const worth = (model.sizes.effective_positive + model.sizes.effective_negative) / all;
    const seen = hits.map((count, k) => wilson(Math.min(1, count / size[k]), size[k] * worth));
    const top = Math.min(1, 1.06 * Math.max(...seen.map((s) => s.high), ...raw, ...calibrated));
    const axis = { domain: [0, top], root: true, ticks: [0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1].filter((tick) => tick <= top) };
    plot.begin({ ...axis, label: "predicted probability" }, { ...axis, label: "share of positives seen" });
    plot.path("dotted", [[0, 0], [top, top]]);
    plot.path("raw", raw.map((p, k) => [p, seen[k].value]));
    raw.forEach((p, k) => plot.dot("hollow", p, seen[k].value, 4));
    plot.path("now", calibrated.map((p, k) => [p, seen[k].value]));
    calibrated.forEach((p, k) => plot.line("whisker", [p, seen[k].low], [p, seen[k].high]));
    calibrated.forEach((p, k) => plot.dot("solid", p, seen[k].value, 5));
    const gap = calibrated.reduce((sum, p, k) => sum + (size[k] / all) * Math.abs(p - seen[k].value), 0);
    plot.end(`In ten bins of equal numbers the calibrated probabilities are off by ${rounded(gap)} on average.`);
    legend(this.legend, [["now", "calibrated, 95 % intervals"], ["raw", "as scored"], ["dotted", "perfect"]],
      document.createTextNode("At the prevalence of the data; axes stretched towards 0."));
  }
}

export class DecisionChart extends Chart {
  constructor(model) {
    super("decision", model, { label: "Decision curve: net benefit over the threshold probability", left: 52 });
  }

  draw(view) {
    const { model, plot } = this;
    const { sizes, grid, prevalence: source } = model;
    const { column, cut } = view.state;
    const share = view.setting.prevalence;
    const shift = logOdds(share) - logOdds(source);
    const [tp, fp] = ["positive", "negative"].map((name) => slice(model.streams[`grid ${name}`], column, grid.length));
    const widest = Math.min(0.99, Math.max(4 * share + 0.15, 0.2));
    const at = (p, { tp, fp }) => ({ p, ...netBenefit(tp, fp, sizes, share, p / (1 - p)) });
    // The point stands where its own threshold lies, as a calibrated probability: there it is one of the curve's decisions.
    const point = at(model.probability(column, thresholdOf(model, view.state), share), model.counts(column, cut));
    const stops = [...grid.map((margin, k) => at(sigmoid(margin + shift), { tp: tp[k], fp: fp[k] })), point];
    const drawn = stops.filter(({ p }) => p <= widest).sort((a, b) => a.p - b.p);
    const [line, up, down] = ["value", "high", "low"].map((end) => drawn.map((stop) => [stop.p, stop[end]]));
    const everyone = [];
    for (let k = 0; k <= 60; k++) {
      const p = (widest * k) / 60;
      everyone.push([p, share - (1 - share) * (p / (1 - p))]);
    }
    const here = view.setting.costFp / (view.setting.costFp + view.setting.costFn);
    const benefit = view.figures.net_benefit;
    const bottom = Math.max(-share, Math.min(-0.25 * share, point.p <= widest ? 1.15 * point.value : 0));
    plot.begin(
      { domain: [0, widest], label: "threshold probability", text: (v) => `${general(100 * v, 3)} %` },
      { domain: [bottom, 1.1 * share], label: "net benefit per case" },
    );
    plot.area("band", up, down);
    plot.path("dotted", [[0, 0], [widest, 0]]);
    plot.path("dashed", everyone.filter(([, y]) => y >= bottom));
    plot.path("now", line);
    if (here <= widest) plot.line("limit", [here, bottom], [here, 1.1 * share]);
    if (point.p <= widest) plot.dot("here", point.p, point.value);
    plot.end(`At your costs a case is worth acting on from ${percent(here)}; there this point's net benefit is ${rounded(benefit.value)}.`);
    legend(this.legend, [
      ["now", "this λ's calibrated probabilities, 95 % band"],
      ["dashed", "act on everyone"],
      ["dotted", "act on no one"],
      ["limit", "your costs"],
    ], document.createTextNode("The dot is this point, at the calibrated probability of its threshold."));
  }
}

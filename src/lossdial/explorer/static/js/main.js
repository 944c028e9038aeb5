// Puts the page together: one state, one view of it, and everything drawn from that view.

import { certified } from "./certify.js";
import { CostChart, DecisionChart, ReliabilityChart, ScoresChart } from "./charts.js";
import { decode } from "./codec.js";
import { Controls } from "./controls.js";
import { PrecisionRecall, Roc, frontier } from "./curves.js";
import { byId, node, write } from "./dom.js";
import { addingUp, expectedCost, figuresAt, people, wilson } from "./figures.js";
import { printed, rounded } from "./format.js";
import { HeatMap } from "./heatmap.js";
import { Model } from "./model.js";
import { People, peopleDigits } from "./people.js";
import { Pictures } from "./pictures.js";
import { Points, listed } from "./points.js";
import { Referral } from "./referral.js";
import { objectives, everyLam } from "./search.js";
import { about, certificateText, objective, onBudget, onCertified, onCost, onRecall, summary } from "./sentences.js";
import { Store, firstState, fromAddress, moved, placeOf, settingOf, settled, toAddress } from "./state.js";

class Explorer {
  constructor(model) {
    this.model = model;
    document.documentElement.classList.toggle("unlabelled", !model.labelled);
    this.frontier = model.labelled ? frontier(model) : [];
    this.store = new Store(model, fromAddress(model, location.hash));
    this.words();
    this.controls = new Controls(this.store);
    this.points = new Points(this.store, (point) => this.toPoint(point));
    this.pictures = new Pictures(model);
    this.charts = this.buildCharts();
    this.buttons();
    this.theme();
    this.store.listeners.push(() => this.update());
    window.addEventListener("hashchange", () => {
      if (location.hash !== this.written) this.store.set(fromAddress(model, location.hash));
    });
    new ResizeObserver(() => this.resized()).observe(byId("plots"));
    // Out of sight, the figures follow along the lower edge.
    const away = ([entry]) => byId("bar").classList.toggle("away", !entry.isIntersecting);
    new IntersectionObserver(away).observe(byId("summary"));
    this.update();
    if (this.store.state.origin) this.say(`The page opens at the model's own point: ${this.store.state.origin}.`);
  }

  words() {
    const { model } = this;
    write(byId("about"), about(model));
    byId("notes").replaceChildren(...model.notes.map((text) => node("p", { class: "note", role: "note" }, text)));
    for (const place of document.querySelectorAll("[data-noun]")) write(place, model.noun);
    if (model.evidence) write(byId("evidence"), `Data ${model.evidence.slice(0, 12)}.`);
  }

  buildCharts() {
    const { model, store } = this;
    const toThreshold = (threshold) => this.controls.toCut(model.cutNear(store.state.column, threshold));
    const scores = new ScoresChart(model, toThreshold);
    if (!model.labelled) return [scores];
    const toCut = (cut) => this.controls.toCut(cut);
    return [
      new People(model),
      new PrecisionRecall("pr", model, "Precision against recall", toCut),
      new Roc("roc", model, "ROC curve", toCut),
      new HeatMap(model, {
        onColumn: (column) => store.set(moved(model, store.state, column)),
        onMetric: (metric) => store.show({ metric }),
        onAxes: (which, name) => store.show(which === "x" ? { across: name } : { up: name }),
      }),
      new CostChart(model, toThreshold),
      scores,
      new ReliabilityChart(model),
      new DecisionChart(model),
      new Referral(model, (column) => store.set(moved(model, store.state, column))),
      this.pictures,
    ];
  }

  // All that is drawn or printed follows from this.
  view() {
    const { model } = this;
    const { state } = this.store;
    const setting = settingOf(state);
    const points = listed(model, state);
    const alertsOf = (count) => wilson(count / model.rows.all, model.rows.all);
    const common = { state, setting, points, frontier: this.frontier, alertsOf };
    const { tp, fp } = model.counts(state.column, state.cut);
    if (!model.labelled) return { ...common, alerts: alertsOf(fp) };
    const key = JSON.stringify([setting.prevalence, setting.costFn, setting.costFp]);
    if (this.costKey !== key) {
      this.costKey = key;
      this.cheapest = everyLam(model, objectives.cost(model.sizes, setting));
    }
    const best = model.counts(this.cheapest.best, this.cheapest.cuts[this.cheapest.best]);
    return {
      ...common,
      cheapest: this.cheapest,
      bestCost: expectedCost(best.tp, best.fp, model.sizes, setting),
      figures: figuresAt(tp, fp, model.sizes, setting),
      people: people(tp, fp, model.sizes, setting.prevalence),
      counted: addingUp(people(tp, fp, model.sizes, setting.prevalence), peopleDigits(setting.prevalence)),
    };
  }

  update() {
    const view = this.view();
    this.controls.write(view);
    write(byId("sentence"), summary(this.model, view));
    this.keys(view);
    this.points.write(view);
    if (!view.state.origin && !this.saying) this.say("");
    cancelAnimationFrame(this.frame);
    this.frame = requestAnimationFrame(() => this.drawAll(view));
    clearTimeout(this.writing);
    this.writing = setTimeout(() => this.writeAddress(), 200);
  }

  keys(view) {
    const entry = (label, key, text) => {
      const [value, ...interval] = text.split(" ");
      return node("div", {}, node("dt", {}, label), node("dd", { "data-key": key }, node("b", {}, value), node("small", {}, interval.join(" "))));
    };
    const thousand = (value, whole) => rounded(1000 * value, 1, whole);
    const scaled = ({ value, low, high }, whole) => `${thousand(value, whole)} [${thousand(low, whole)}, ${thousand(high, whole)}]`;
    if (!this.model.labelled) {
      byId("keys").replaceChildren(entry(`Alarms per 1,000 ${this.model.noun}`, "alerts", scaled(view.alerts, 1000)));
      byId("bar").replaceChildren(node("span", {}, node("b", {}, thousand(view.alerts.value, 1000)), "alarms / 1,000"));
      return;
    }
    const { recall, precision, alert_rate: alerts, expected_cost: cost } = view.figures;
    const brief = (label, text) => node("span", {}, node("b", {}, text), label);
    byId("bar").replaceChildren(
      brief("recall", rounded(recall.value)),
      brief("precision", Number.isNaN(precision.value) ? "–" : rounded(precision.value)),
      brief("alarms / 1,000", thousand(alerts.value, 1000)),
      brief("cost / 1,000", thousand(cost.value, Infinity)),
    );
    byId("keys").replaceChildren(
      entry("Recall", "recall", printed(recall)),
      entry("Precision", "precision", printed(precision)),
      entry(`Alarms per 1,000 ${this.model.noun}`, "alerts", scaled(alerts, 1000)),
      entry(`Cost per 1,000 ${this.model.noun}`, "cost", scaled(cost, Infinity)),
    );
  }

  drawAll(view) {
    const later = this.charts.map((chart) => chart.draw(view)).filter((rest) => typeof rest === "function");
    clearTimeout(this.finishing);
    // The hundreds of faint curves come once the hand rests; the first time at once.
    this.finishing = setTimeout(() => {
      for (const rest of later) rest();
      if (!document.documentElement.dataset.ready) performance.mark("ready");
      document.documentElement.dataset.ready = "true";
    }, document.documentElement.dataset.ready ? 120 : 0);
  }

  resized() {
    this.points.fit();
    const changed = this.charts.filter((chart) => chart.plot?.measure());
    if (changed.length) this.drawAll(this.view());
  }

  writeAddress() {
    this.written = toAddress(this.model, this.store.state);
    try {
      history.replaceState(null, "", this.written);
    } catch {
      // Inside a notebook's frame there is no address to write to.
    }
  }

  say(text, refused = false) {
    byId("said").classList.toggle("refused", refused);
    write(byId("said"), text);
  }

  // A jump: the new state, and the sentence that says what it means.
  land(state, kind, sentence) {
    const chosen = kind ? objective(kind, settingOf(state), this.model.prevalence) : {};
    this.saying = true;
    this.store.set({ ...state, ...chosen });
    this.saying = false;
    this.say(sentence(this.view()));
  }

  jump(kind, sentence) {
    const { model, store } = this;
    const { state } = store;
    if (!model.labelled) {
      this.land(settled(model, { ...state, follow: "budget" }), "budget", sentence);
      return;
    }
    const before = this.view().figures.expected_cost.value;
    const found = everyLam(model, objectives[kind](model.sizes, settingOf(state)));
    const next = { ...state, column: found.best, cut: found.cuts[found.best], follow: kind, certificate: "", exact: null };
    this.land(next, kind, (view) => sentence(view, before));
  }

  certify() {
    const { model, store } = this;
    const { state } = store;
    const found = certified(model, state);
    const sentence = onCertified(model, found, state);
    if (found.column === undefined) {
      this.say(sentence, true);
      return;
    }
    const next = { ...state, column: found.column, cut: found.cut, exact: found.exact, follow: "hand", certificate: certificateText(found, state) };
    this.land(next, "certified", () => sentence);
  }

  toPoint(point) {
    const { model, store } = this;
    this.land({ ...store.state, ...placeOf(model, point), follow: "hand", origin: point.objective, aim: point.aim ?? null, certificate: point.certificate }, "", () => `This is ${point.name}.`);
  }

  buttons() {
    const { model } = this;
    byId("jump-cost").addEventListener("click", () => this.jump("cost", (view, before) => onCost(model, view, before)));
    byId("jump-recall").addEventListener("click", () => this.jump("recall", (view) => onRecall(model, view)));
    byId("jump-budget").addEventListener("click", () => this.jump("budget", (view) => onBudget(model, view)));
    byId("jump-certified").addEventListener("click", () => this.certify());
    byId("reset").addEventListener("click", () => {
      const { points, theme } = this.store.state;
      this.store.set({ ...firstState(model), points, theme });
    });
    const share = byId("share");
    share.hidden = !navigator.clipboard || location.protocol === "about:";
    share.addEventListener("click", async () => {
      this.writeAddress();
      await navigator.clipboard.writeText(location.href).then(
        () => write(share, "Copied"),
        () => write(share, "Copy it from the address bar"),
      );
    });
  }

  theme() {
    const system = matchMedia("(prefers-color-scheme: dark)");
    const apply = () => {
      const dark = (this.store.state.theme || (system.matches ? "dark" : "light")) === "dark";
      document.documentElement.dataset.theme = dark ? "dark" : "light";
      write(byId("theme"), dark ? "Light" : "Dark");
      for (const chart of this.charts) chart.key = null;
    };
    apply();
    system.addEventListener("change", () => {
      apply();
      this.drawAll(this.view());
    });
    byId("theme").addEventListener("click", () => {
      const dark = document.documentElement.dataset.theme === "dark";
      this.store.state = { ...this.store.state, theme: dark ? "light" : "dark" };
      apply();
      this.update();
    });
  }
}

async function start() {
  try {
    const payload = JSON.parse(byId("payload").textContent);
    if (typeof DecompressionStream === "undefined") throw new Error("this browser is too old to unpack it (no DecompressionStream)");
    const model = new Model(payload, await decode(payload.streams));
    window.explorer = new Explorer(model);
  } catch (error) {
    const box = byId("failure");
    box.hidden = false;
    box.replaceChildren(node("p", { class: "note" }, `This page could not be shown: ${error.message}.`));
    throw error;
  }
}

start();

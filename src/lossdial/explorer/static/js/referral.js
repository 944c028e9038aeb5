// Points with two cuts, given with the page: clear below, act above, a person looks at what lies between.

import { byId, node } from "./dom.js";
import { referred } from "./figures.js";
import { general, percent, rounded } from "./format.js";
import { sigmoid } from "./model.js";
import { peopleDigits } from "./people.js";

const spelled = (threshold) => `${general(threshold, 4)} (the model's own probability ${general(sigmoid(threshold), 3)})`;

export class Referral {
  constructor(model, onShow) {
    this.model = model;
    this.shown = model.referrals.map((band) => {
      const table = node("table", {});
      const button = node("button", { type: "button", class: "quiet" }, "Show its λ");
      button.addEventListener("click", () => onShow(band.column));
      const text = `${band.text} What is certified holds at that prevalence; the table is what these rows show at yours.`;
      const scroll = node("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": band.name }, table);
      byId("referral-bands").append(node("div", { "data-band": band.name }, node("p", { class: "hint" }, text), scroll, button));
      return { band, table, button };
    });
    byId("referral").hidden = this.shown.length === 0;
  }

  draw(view) {
    const { model } = this;
    const { prevalence } = view.setting;
    for (const { band, table, button } of this.shown) {
      table.replaceChildren(...this.rows(band, prevalence));
      button.hidden = model.size === 1 || view.state.column === band.column;
    }
  }

  rows(band, prevalence) {
    const { model } = this;
    const digits = peopleDigits(prevalence);
    const found = referred(band.above_low, band.above_high, model.sizes, prevalence);
    const ends = { clear: `score up to ${spelled(band.low)}`, refer: "in between", act: `score above ${spelled(band.high)}` };
    if (band.low === -Infinity) ends.clear = "none";
    if (band.high === Infinity) ends.act = "none";
    const cell = (kind, side) => node("td", { "data-referral": `${kind} ${side}` }, rounded(found[kind][side], digits, Infinity));
    const rows = Object.entries(ends).map(([kind, text]) => node("tr", {}, node("th", { scope: "row" }, `${kind}: ${text}`), cell(kind, "all"), cell(kind, "positive"), cell(kind, "negative")));
    const heads = ["", `of 1,000 ${model.noun}`, model.classes[1], model.classes[0]].map((text) => node("th", { scope: "col" }, text));
    const caption = node("caption", { class: "hint" }, `At a prevalence of ${percent(prevalence, 2)}`);
    return [caption, node("thead", {}, node("tr", {}, heads)), node("tbody", {}, rows)];
  }
}

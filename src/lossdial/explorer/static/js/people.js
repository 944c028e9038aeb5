// The confusion matrix as people: a thousand dots, and the four numbers.

import { byId, draw, node, write } from "./dom.js";

const KINDS = ["caught", "missed", "false_alarms", "passed"];
const [ACROSS, DOWN, STEP] = [40, 25, 10];

// Whole people: rounded down, the largest remainders up, so that they are a thousand.
export function whole(parts) {
  const counts = KINDS.map((kind) => Math.floor(parts[kind]));
  const order = KINDS.map((_, k) => k).sort((a, b) => parts[KINDS[b]] - counts[b] - (parts[KINDS[a]] - counts[a]));
  let rest = 1000 - counts.reduce((a, b) => a + b, 0);
  for (const k of order) if (rest-- > 0) counts[k]++;
  return counts;
}

const round = (x, y, r) => `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`;
const square = (x, y, r) => `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}Z`;
const diamond = (x, y, r) => `M${x} ${y - r}L${x + r} ${y}L${x} ${y + r}L${x - r} ${y}Z`;
const SHAPES = {
  caught: (x, y) => round(x, y, 4),
  missed: (x, y) => diamond(x, y, 5),
  false_alarms: (x, y) => square(x, y, 3.4),
  passed: (x, y) => round(x, y, 2.6),
};

export function peopleDigits(prevalence) {
  return prevalence < 0.01 || prevalence > 0.99 ? 2 : 1;
}

export class People {
  constructor(model) {
    const [negative, positive] = model.classes;
    this.model = model;
    this.paths = KINDS.map((kind) => draw("path", { class: kind }));
    this.svg = draw("svg", { viewBox: `0 0 ${ACROSS * STEP} ${DOWN * STEP}`, role: "img" }, this.paths);
    this.cells = Object.fromEntries(KINDS.map((kind) => [kind, node("b", { "data-people": kind })]));
    const cell = (kind, text) =>
      node("td", {}, this.cells[kind], node("span", { class: `swatch ${kind}`, "aria-hidden": "true" }), text);
    const table = node(
      "table",
      {},
      node("thead", {}, node("tr", {}, node("th", { scope: "col" }, node("span", { class: "sr" }, "truth")), node("th", { scope: "col" }, "alarm"), node("th", { scope: "col" }, "no alarm"))),
      node(
        "tbody",
        {},
        node("tr", {}, node("th", { scope: "row" }, positive), cell("caught", "caught"), cell("missed", "missed")),
        node("tr", {}, node("th", { scope: "row" }, negative), cell("false_alarms", "false alarms"), cell("passed", "rightly left alone")),
      ),
    );
    byId("people").querySelector(".people").replaceChildren(this.svg, table);
  }

  draw(view) {
    const counts = whole(view.people);
    let at = 0;
    KINDS.forEach((kind, k) => {
      let d = "";
      for (let i = 0; i < counts[k]; i++, at++) {
        d += SHAPES[kind](Math.floor(at / DOWN) * STEP + STEP / 2, (at % DOWN) * STEP + STEP / 2);
      }
      this.paths[k].setAttribute("d", d);
      write(this.cells[kind], view.counted.text(view.counted[kind]));
    });
    const [caught, missed, alarms, passed] = KINDS.map((kind) => view.counted.text(view.counted[kind]));
    this.svg.setAttribute(
      "aria-label",
      `A thousand ${this.model.noun}: ${caught} caught, ${missed} missed, ${alarms} false alarms, ${passed} rightly left alone.`,
    );
  }
}

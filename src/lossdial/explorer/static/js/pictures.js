// Thumbnails of what the model gets most wrong at this point.

import { byId, node } from "./dom.js";
import { general } from "./format.js";

export class Pictures {
  constructor(model) {
    this.model = model;
    byId("pictures").hidden = !model.pictures;
  }

  strip(id, kind, keep, empty) {
    const { model } = this;
    const rows = model.streams[`${kind} rows`];
    const scores = model.streams[`${kind} scores`];
    const width = rows.length / model.size;
    const items = [];
    for (let i = this.column * width; i < (this.column + 1) * width; i++) {
      if (!keep(scores[i])) continue;
      const source = model.pictures[rows[i]];
      const text = `row ${rows[i]}`;
      const picture = source ? node("img", { src: source, alt: text, width: 96, height: 96 }) : node("span", { class: "absent", role: "img", "aria-label": `${text}, no picture in this file` });
      items.push(node("li", {}, picture, `${text}, score ${general(scores[i], 3)}`));
    }
    byId(id).replaceChildren(...(items.length ? items : [node("li", { class: "wide" }, empty)]));
  }

  draw({ state }) {
    if (!this.model.pictures) return;
    const threshold = this.model.threshold(state.column, state.cut);
    if (this.column === state.column && this.threshold === threshold) return;
    Object.assign(this, { column: state.column, threshold });
    this.strip("alarms", "alarm", (score) => score > threshold, "None at this threshold.");
    this.strip("missed", "missed", (score) => score <= threshold, "None at this threshold.");
  }
}

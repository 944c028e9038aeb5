// A frame with axes to draw in: an SVG for what is sharp, a canvas below it for the hundreds of faint curves.

import { draw, node } from "./dom.js";
import { grouped, plain } from "./format.js";

export function niceTicks(low, high, count = 5) {
  const rough = (high - low) / count || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].find((s) => s * power >= rough * 0.999) * power;
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k++) ticks.push(Number((k * step).toPrecision(12)));
  return ticks;
}

const tickText = (value) => (Math.abs(value) >= 1000 ? grouped(value) : plain(value)).replace("-", "−");

export class Plot {
  constructor(host, { ratio = 0.72, left = 46, label, role = "img", pick = null }) {
    Object.assign(this, { host, ratio, label, pick });
    this.margin = { left, right: 12, top: 10, bottom: 40 };
    this.canvas = node("canvas", { "aria-hidden": "true" });
    this.svg = draw("svg", { role, "aria-label": label });
    host.replaceChildren(this.canvas, this.svg);
    this.measure();
    if (pick) this.listen();
  }

  // Takes the width the page gives; says whether it changed.
  measure() {
    const width = Math.max(220, Math.round(this.host.clientWidth));
    if (width === this.width) return false;
    this.width = width;
    this.height = Math.round(Math.min(360, Math.max(230, width * this.ratio)));
    this.svg.setAttribute("viewBox", `0 0 ${this.width} ${this.height}`);
    this.svg.setAttribute("height", this.height);
    return true;
  }

  listen() {
    this.host.classList.add("picks");
    const report = (event) => {
      const box = this.svg.getBoundingClientRect();
      this.pick(this.x.invert(event.clientX - box.left), this.y.invert(event.clientY - box.top), this);
    };
    this.svg.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      this.svg.setPointerCapture(event.pointerId);
      this.dragging = true;
      report(event);
    });
    this.svg.addEventListener("pointermove", (event) => this.dragging && report(event));
    for (const name of ["pointerup", "pointercancel"]) this.svg.addEventListener(name, () => (this.dragging = false));
  }

  // Clears, and draws axes: x and y are { domain, label, ticks?, text?, root? }; `root` spreads out what is near 0.
  begin(x, y) {
    const { right, top, bottom } = this.margin;
    const marks = (y.ticks ?? niceTicks(...y.domain)).map((value) => [value, (y.text ?? tickText)(value)]);
    // The longest number keeps clear of the axis' title.
    const left = Math.max(this.margin.left, 24 + 6.5 * Math.max(0, ...marks.map(([, text]) => text.length)));
    const scale = ({ domain, root }, from, to) => {
      const [bend, unbend] = root ? [Math.sqrt, (v) => v * v] : [(v) => v, (v) => v];
      const [a, b] = domain.map(bend);
      const place = (value) => from + ((bend(value) - a) / (b - a || 1)) * (to - from);
      place.invert = (at) => unbend(a + ((at - from) / (to - from)) * (b - a));
      return place;
    };
    this.x = scale(x, left, this.width - right);
    this.y = scale(y, this.height - bottom, top);
    this.parts = [];
    const [x0, x1, y0, y1] = [left, this.width - right, this.height - bottom, top];
    for (const [value, text] of marks) {
      const at = this.y(value);
      this.parts.push(draw("line", { class: "grid", x1: x0, x2: x1, y1: at, y2: at }));
      this.parts.push(draw("text", { x: x0 - 6, y: at + 3.5, "text-anchor": "end" }, text));
    }
    for (const value of x.ticks ?? niceTicks(...x.domain, Math.max(3, Math.round(this.width / 80)))) {
      const at = this.x(value);
      this.parts.push(draw("line", { class: "grid", x1: at, x2: at, y1: y0, y2: y1 }));
      this.parts.push(draw("text", { x: at, y: y0 + 15, "text-anchor": "middle" }, (x.text ?? tickText)(value)));
    }
    this.parts.push(draw("line", { class: "axis", x1: x0, x2: x1, y1: y0, y2: y0 }));
    this.parts.push(draw("text", { class: "title", x: (x0 + x1) / 2, y: this.height - 6, "text-anchor": "middle" }, x.label));
    const turned = `rotate(-90) translate(${-(y0 + y1) / 2} 11)`;
    this.parts.push(draw("text", { class: "title", transform: turned, "text-anchor": "middle" }, y.label));
    return this;
  }

  inside(y) {
    return Math.min(this.height - this.margin.bottom, Math.max(this.margin.top - 2, y));
  }

  trace(points) {
    let text = "";
    for (let i = 0; i < points.length; i++) {
      text += `${i ? "L" : "M"}${this.x(points[i][0]).toFixed(1)} ${this.inside(this.y(points[i][1])).toFixed(1)}`;
    }
    return text;
  }

  path(name, points) {
    if (points.length > 1) this.parts.push(draw("path", { class: name, d: this.trace(points) }));
    else if (points.length) this.dot(name, ...points[0], 4); // a curve of one positive
  }

  area(name, upper, lower) {
    if (upper.length > 1) this.parts.push(draw("path", { class: name, d: `${this.trace([...upper, ...lower.reverse()])}Z` }));
  }

  line(name, [xa, ya], [xb, yb]) {
    const at = { x1: this.x(xa), x2: this.x(xb), y1: this.inside(this.y(ya)), y2: this.inside(this.y(yb)) };
    this.parts.push(draw("line", { class: name, ...at }));
  }

  dot(name, x, y, r = 6) {
    this.parts.push(draw("circle", { class: name, cx: this.x(x), cy: this.inside(this.y(y)), r }));
  }

  badge(letter, x, y) {
    const [cx, cy] = [this.x(x), this.inside(this.y(y))];
    this.parts.push(draw("g", { class: "point" }, draw("circle", { cx, cy, r: 8 }), draw("text", { x: cx, y: cy + 3.5 }, letter)));
  }

  add(...elements) {
    this.parts.push(...elements);
  }

  end(description) {
    this.svg.replaceChildren(...this.parts);
    this.svg.setAttribute("aria-label", `${this.label}. ${description}`);
  }

  // Faint curves [[x, y], …] on the canvas; each is one stroke.
  faint(curves, colour, alpha) {
    const ratio = window.devicePixelRatio || 1;
    const { canvas } = this;
    canvas.width = Math.round(this.width * ratio);
    canvas.height = Math.round(this.height * ratio);
    canvas.style.width = `${this.width}px`;
    canvas.style.height = `${this.height}px`;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.strokeStyle = colour;
    context.globalAlpha = alpha;
    context.lineWidth = 1;
    for (const curve of curves) {
      context.beginPath();
      for (const [x, y] of curve) context.lineTo(this.x(x), this.y(y));
      context.stroke();
    }
  }
}

// A legend line: [class of the stroke, text] pairs.
export function legend(host, keys, ...more) {
  const entries = keys.map(([name, text]) => {
    const mark = draw("svg", { viewBox: "0 0 24 10", "aria-hidden": "true" }, draw("path", { class: name, d: "M0 5H24" }));
    return node("span", { class: "key" }, mark, text);
  });
  host.replaceChildren(...entries, ...more);
}

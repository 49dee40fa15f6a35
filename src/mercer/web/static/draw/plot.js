// A plot: axes in one SVG, marks in a canvas above it, cursors and lassos in another SVG above that.

import { fill, fresh, h, s } from "../core/dom.js";
import { labels, linear, logarithmic } from "./scale.js";
import { theme } from "./colour.js";

const queue = new Set();
function frameOf(plot) {
  if (!queue.size) requestAnimationFrame(() => {
    const due = [...queue].map((each) => [each, Math.round(each.root.clientWidth)]); // all are measured before any is changed
    queue.clear();
    due.forEach(([each, width]) => each.now(width));
  });
  queue.add(plot);
}

export class Plot {
  /** `label` names the plot for a screen reader; `height` is a share of the width, of `least` pixels. */
  constructor(label, { margin = {}, height = 0.8, least = 0, bare = false } = {}) {
    this.margin = { left: 46, right: 12, top: 10, bottom: 38, ...margin };
    this.share = height;
    this.least = least; // pixels
    this.bare = bare; // no axes: an image or a strip
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.axes = s("g", { class: "axes" });
    this.over = s("g", { class: "over" });
    this.clip = fresh("clip");
    this.hole = s("rect");
    this.under = s("svg", { class: "under", "aria-hidden": "true" }, this.axes);
    this.svg = s("svg", { "aria-hidden": "true" }, s("clipPath", { id: this.clip }, this.hole), s("g", { "clip-path": `url(#${this.clip})` }, this.over));
    this.tip = h("div", { class: "tip", hidden: true });
    this.root = h("div", { class: "plot", role: "img", "aria-label": label }, this.under, this.canvas, this.svg, this.tip);
    this.layers = []; // functions of (context, plot), painted in order
    this.x = linear([0, 1], [0, 1]);
    this.y = linear([0, 1], [0, 1]);
    this.wanted = { x: [0, 1], y: [0, 1] };
    this.width = 0;
    new ResizeObserver(() => this.paint()).observe(this.root);
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"]) matchMedia(query).addEventListener("change", () => this.paint());
    matchMedia("print").addEventListener("change", () => this.now(this.width)); // paper does not wait for a frame
  }

  /** What the axes show: {x, y: [low, high], xlabel, ylabel, equal, xlog, ylog, shift: [cx, cy], xticks}. */
  show(wanted) {
    this.wanted = { ...this.wanted, ...wanted };
    this.paint();
  }

  paint() {
    frameOf(this);
  }

  /** Paint at once, as wide as it was measured; called once a frame at most. */
  now(width) {
    if (width < 40) return;
    const height = Math.max(this.least, Math.round(this.share * width));
    this.layout(width, height);
    const dots = Math.min(devicePixelRatio || 1, 3);
    if (this.canvas.width !== width * dots || this.canvas.height !== height * dots) Object.assign(this.canvas, { width: width * dots, height: height * dots });
    if (!this.bare) this.makeRoom();
    this.theme = theme(this.root);
    const context = this.canvas.getContext("2d");
    context.setTransform(1, 0, 0, 1, 0, 0);
    context.clearRect(0, 0, this.canvas.width, this.canvas.height);
    context.setTransform(dots, 0, 0, dots, 0, 0);
    this.dots = dots;
    if (!this.bare) this.drawAxes();
    for (const layer of this.layers) {
      context.save();
      layer(context, this);
      context.restore();
    }
  }

  layout(width, height) {
    const { right, top, bottom } = this.margin;
    const left = this.room ?? this.margin.left;
    this.box = { left, top, width: width - left - right, height: height - top - bottom };
    if (width !== this.width || height !== this.height || left !== this.left) {
      Object.assign(this, { width, height, left });
      this.root.style.height = `${height}px`;
      for (const svg of [this.under, this.svg]) for (const [key, value] of Object.entries({ viewBox: `0 0 ${width} ${height}`, width, height })) svg.setAttribute(key, value);
      for (const [key, value] of Object.entries({ x: left, y: top, width: this.box.width, height: this.box.height })) this.hole.setAttribute(key, value);
    }
    let { x, y } = this.wanted;
    if (this.wanted.equal) [x, y] = this.evened(x, y);
    this.x = (this.wanted.xlog ? logarithmic : linear)(x, [left, left + this.box.width]);
    this.y = (this.wanted.ylog ? logarithmic : linear)(y, [top + this.box.height, top]);
  }

  /** Ranges widened so that a unit is as long across as up, unless that would leave most of the plot empty. */
  evened(x, y) {
    const unit = Math.max((x[1] - x[0]) / this.box.width, (y[1] - y[0]) / this.box.height);
    const wide = unit * this.box.width, tall = unit * this.box.height;
    if (wide > 3 * (x[1] - x[0]) || tall > 3 * (y[1] - y[0])) return [x, y];
    const grown = ([a, b], size) => [(a + b - size) / 2, (a + b + size) / 2];
    return [grown(x, wide), grown(y, tall)];
  }

  /** A left margin that the longest number of the vertical axis fits into; it grows, so that a drag does not shake the plot. */
  makeRoom() {
    const most = Math.max(...this.ticks(this.y, this.wanted.shift?.[1] ?? 0, Math.max(2, Math.floor(this.box.height / 36))).map(({ text }) => text.length));
    const room = Math.max(this.margin.left, 26 + 6.4 * most);
    if (room <= (this.room ?? this.margin.left) && room > (this.room ?? 0) - 14) return;
    this.room = room;
    this.layout(this.width, this.height);
  }

  drawAxes() {
    const { left, top, width, height } = this.box;
    const bottom = top + height;
    const { shift = [0, 0], xlabel = "", ylabel = "", xticks = null, yticks = null } = this.wanted;
    const across = xticks ?? this.ticks(this.x, shift[0], Math.max(2, Math.floor(width / 52)));
    const up = yticks ?? this.ticks(this.y, shift[1], Math.max(2, Math.floor(height / 36)));
    const now = JSON.stringify([this.box, across, up, xlabel, ylabel]);
    if (now === this.drawn) return; // most frames of a drag leave the axes as they are
    this.drawn = now;
    fill(this.axes,
      s("rect", { class: "ground", x: left, y: top, width, height }),
      across.map(({ at }) => s("line", { class: "rule", x1: at, x2: at, y1: top, y2: bottom })),
      up.map(({ at }) => s("line", { class: "rule", x1: left, x2: left + width, y1: at, y2: at })),
      across.map(({ at, text }) => s("text", { x: at, y: bottom + 15, "text-anchor": "middle" }, text)),
      up.map(({ at, text }) => s("text", { x: left - 7, y: at + 3.5, "text-anchor": "end" }, text)),
      s("text", { class: "axis", x: left + width / 2, y: bottom + 31, "text-anchor": "middle" }, shorten(xlabel, width / 6.2)),
      s("text", { class: "axis", transform: `translate(11 ${top + height / 2}) rotate(-90)`, "text-anchor": "middle" }, shorten(ylabel, height / 6.2)));
  }

  /** Ticks of the data, though the scale holds data minus a centre. */
  ticks(scale, shift, most) {
    const [a, b] = scale.domain;
    const found = scale.log || !shift ? scale.ticks(most) : linear([a + shift, b + shift], [0, 1]).ticks(most);
    const texts = labels(found, scale.log);
    return found.map((value, i) => ({ at: scale(scale.log ? value : value - shift), text: texts[i] }));
  }

  /** The rectangle of the data in device pixels, as brushes want it. */
  get pixels() {
    const { left, top, width, height } = this.box;
    return [left, top, width, height].map((v) => Math.round(v * this.dots));
  }

  /** A note beside (x, y) in pixels of the plot: lines of text; none hides it. */
  note(lines, x = 0, y = 0) {
    this.tip.hidden = !lines;
    if (!lines) return;
    fill(this.tip, lines.picture, lines.map((line, i) => h(i ? "span" : "b", {}, line)));
    const right = x > this.width / 2;
    this.tip.style.left = right ? "" : `${x + 14}px`;
    this.tip.style.right = right ? `${this.width - x + 14}px` : "";
    this.tip.style.top = `${Math.max(0, Math.min(y - 12, this.height - 60))}px`;
  }
}

const shorten = (text, most) => (text.length > most ? `${text.slice(0, Math.max(3, most - 1))}…` : text);

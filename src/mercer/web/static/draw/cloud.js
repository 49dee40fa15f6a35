// Rows as marks in a plot: drawn by the shared brush, found under the pointer, walked with arrow keys, gathered by a lasso.

import KDBush from "../vendor/kdbush.js";
import { fill, s } from "../core/dom.js";
import { brush, density, onBrushLost } from "./brush.js";
import { styles } from "./colour.js";

const NEAR = 14; // px: how far from the pointer a row may lie
const CLICK = 5; // px: a drag shorter than that is a click

/** The diameter of marks: smaller where there are many. */
export const sizeOf = (m) => (m <= 400 ? 6.4 : m <= 3000 ? 5.2 : m <= 20000 ? 3.8 : m <= 100000 ? 2.6 : 2);
const opacityOf = (m) => (m <= 3000 ? 0.86 : m <= 20000 ? 0.65 : m <= 50000 ? 0.4 : 0.16); // so that a cloud of very many still shows where it is dense

export class Cloud {
  /** `acts`: {hover(row | null), select(rows, how), describe(i) → lines, turn(dx, dy) where a drag turns the plot}; `keeps` marks that stay while the plot is redrawn. */
  constructor(plot, acts, keeps = false) {
    this.keeps = keeps;
    Object.assign(this, { plot, acts, m: 0, xy: new Float32Array(0), rows: null, codes: null, shade: null, counts: null, cursor: -1, path: null });
    this.selection = null;
    this.lent();
    onBrushLost(() => {
      this.lent();
      this.restyle();
    });
    plot.layers.push((context) => this.draw(context));
    this.ring = s("circle", { class: "cursor", r: 7, hidden: true });
    this.loop = s("path", { class: "lasso" });
    this.marks = s("g");
    this.trail = s("path", { class: "trail" });
    this.walker = s("circle", { class: "walker", r: 5.5, hidden: true });
    plot.over.append(this.marks, this.trail, this.walker, this.loop, this.ring);
    this.listen();
  }

  lent() {
    this.points = brush().cloud();
    if (this.m) this.points.place(this.xy);
  }

  /** m rows at xy (2m, interleaved, minus the centre); `rows` numbers them where they are a sample. */
  place({ xy, rows = null, codes = null, shade = null }) {
    Object.assign(this, { xy, rows, m: xy.length / 2, index: null, counts: null });
    if (codes) this.codes = codes;
    this.shade = shade;
    this.points.place(xy);
    this.restyle();
    if (this.cursor >= this.m) this.point(-1);
    else this.mark();
  }

  /** Counts in cells over an extent, where there are too many rows for marks. */
  count(counts, extent) {
    Object.assign(this, { counts: { values: counts, extent }, m: 0, xy: new Float32Array(0), index: null, cursor: -1 });
    this.plot.paint();
  }

  colour(codes, shade) {
    Object.assign(this, { codes, shade });
    this.restyle();
  }

  select(selection) {
    this.selection = selection;
    this.restyle();
  }

  restyle() {
    this.looks = styles(this.m, this);
    this.points.look(this.looks);
    this.plot.paint();
  }

  draw(context) {
    const { plot } = this;
    if (this.counts) {
      const [[x0, x1], [y0, y1]] = this.counts.extent;
      context.imageSmoothingEnabled = false;
      context.drawImage(density(this.counts.values, plot.theme.dark), plot.x(x0), plot.y(y1), plot.x(x1) - plot.x(x0), plot.y(y0) - plot.y(y1));
      return;
    }
    if (!this.m) return;
    context.setTransform(1, 0, 0, 1, 0, 0);
    this.drawMarks(context);
    this.mark();
    this.drawWalk();
  }

  /** The marks, kept as a picture: what is drawn beneath them changes more often than they do. */
  drawMarks(context) {
    const { plot } = this, { width, height } = plot.canvas;
    const now = [this.points, this.xy, this.looks, plot.theme, width, height, ...plot.pixels, ...plot.x.domain, ...plot.y.domain];
    if (now.every((each, i) => each === this.kept?.of[i])) return void context.drawImage(this.kept.picture, 0, 0);
    const options = { size: sizeOf(this.m) * plot.dots, alpha: opacityOf(this.m), palette: plot.theme.palette };
    if (!this.keeps) return void this.points.draw(context, plot.pixels, plot.x.domain, plot.y.domain, options);
    const picture = Object.assign(document.createElement("canvas"), { width, height });
    this.points.draw(picture.getContext("2d"), plot.pixels, plot.x.domain, plot.y.domain, options);
    this.kept = { of: now, picture };
    context.drawImage(picture, 0, 0);
  }

  rowOf = (i) => (this.rows ? this.rows[i] : i);
  indexOf = (row) => (this.rows ? this.rows.indexOf(row) : row < this.m ? row : -1);
  at = (i) => [this.plot.x(this.xy[2 * i]), this.plot.y(this.xy[2 * i + 1])];

  // ── what is under the pointer ───────────────────────────────────────────
  /** The mark nearest to a pixel, or −1. */
  nearest(px, py, reach = NEAR) {
    if (!this.m) return -1;
    if (!this.index) {
      this.index = new KDBush(this.m);
      for (let i = 0; i < this.m; i++) this.index.add(this.xy[2 * i], this.xy[2 * i + 1]);
      this.index.finish();
    }
    const { x, y } = this.plot;
    const found = this.index.range(x.invert(px - reach), y.invert(py + reach), x.invert(px + reach), y.invert(py - reach));
    let best = -1, least = reach * reach;
    for (const i of found) {
      const [u, v] = this.at(i);
      const away = (u - px) ** 2 + (v - py) ** 2;
      if (away < least) [best, least] = [i, away];
    }
    return best;
  }

  /** Put the cursor on mark i; −1 takes it away. */
  point(i, told = true) {
    if (i === this.cursor && told) return;
    this.cursor = i;
    this.mark();
    if (told) this.acts.hover?.(i < 0 ? null : this.rowOf(i));
  }

  /** The same row as the cursor of another panel. */
  follow(row) {
    this.cursor = row === null ? -1 : this.indexOf(row);
    this.mark();
  }

  mark() {
    const [x, y] = this.cursor >= 0 && this.cursor < this.m && this.plot.box ? this.at(this.cursor) : [NaN, NaN];
    const seen = Number.isFinite(x + y); // a row with a gap, or without enough rows before it, has no place
    this.ring.toggleAttribute("hidden", !seen);
    if (!seen) return void this.plot.note(null);
    this.ring.setAttribute("cx", x);
    this.ring.setAttribute("cy", y);
    const lines = this.touched && this.acts.describe?.(this.rowOf(this.cursor));
    this.plot.note(lines || null, x, y);
  }

  listen() {
    const { root } = this.plot;
    root.tabIndex = 0;
    root.setAttribute("role", "application");
    root.setAttribute("aria-roledescription", "scatter plot");
    root.classList.add("live");
    const place = (event) => {
      const { left, top } = root.getBoundingClientRect();
      return [event.clientX - left, event.clientY - top];
    };
    root.addEventListener("pointerdown", (event) => this.press(event, place(event)));
    root.addEventListener("pointermove", (event) => this.move(event, place(event)));
    root.addEventListener("pointerup", (event) => this.release(event, place(event)));
    root.addEventListener("pointercancel", () => this.drop());
    root.addEventListener("pointerleave", () => this.path || (this.leave()));
    root.addEventListener("blur", () => this.leave());
    root.addEventListener("keydown", (event) => this.key(event));
  }

  leave() {
    this.touched = false;
    this.point(-1);
  }

  press(event, at) {
    if (event.button !== 0 || !this.plot.box) return;
    this.path = [at];
    this.plot.root.setPointerCapture?.(event.pointerId);
  }

  move(event, at) {
    this.touched = true;
    if (!this.path) return this.point(this.nearest(...at));
    const [px, py] = this.path.at(-1);
    if (!event.shiftKey && this.acts.turn?.(at[0] - px, at[1] - py)) return void (this.path = [at]);
    if (Math.hypot(at[0] - px, at[1] - py) < 2) return;
    this.path.push(at);
    this.loop.setAttribute("d", `M${this.path.map((p) => p.map((v) => v.toFixed(1)).join(" ")).join("L")}Z`);
  }

  release(event, at) {
    const path = this.path;
    this.drop();
    if (!path) return;
    const how = event.shiftKey ? "add" : event.altKey ? "remove" : "replace";
    const long = path.some(([x, y]) => Math.hypot(x - path[0][0], y - path[0][1]) > CLICK);
    if (long) return this.acts.select?.(this.inside(path).map(this.rowOf), how);
    const i = this.nearest(...at);
    this.acts.select?.(i < 0 ? [] : [this.rowOf(i)], i >= 0 && how === "add" ? "toggle" : how);
  }

  drop() {
    this.path = null;
    this.loop.removeAttribute("d");
  }

  /** Marks inside a polygon of pixels, by the crossing rule. */
  inside(path) {
    const found = [];
    for (let i = 0; i < this.m; i++) {
      const [x, y] = this.at(i);
      let odd = false;
      for (let a = 0, b = path.length - 1; a < path.length; b = a++) {
        const [xa, ya] = path[a], [xb, yb] = path[b];
        if (ya > y !== yb > y && x < ((xb - xa) * (y - ya)) / (yb - ya) + xa) odd = !odd;
      }
      if (odd) found.push(i);
    }
    return found;
  }

  key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step && event.shiftKey && this.acts.turn?.(12 * step[0], 12 * step[1])) return event.preventDefault();
    if (step && this.m) {
      this.touched = true;
      this.point(this.cursor < 0 ? this.middle() : this.towards(...step));
    } else if ((event.key === "Enter" || event.key === " ") && this.cursor >= 0) this.acts.select?.([this.rowOf(this.cursor)], "toggle");
    else if (event.key === "Escape") this.acts.select?.([], "replace");
    else return;
    event.preventDefault();
  }

  middle() {
    const { left, top, width, height } = this.plot.box;
    return Math.max(0, this.nearest(left + width / 2, top + height / 2, Math.max(width, height)));
  }

  /** The nearest mark within 45° of a direction: what an arrow key goes to. */
  towards(dx, dy) {
    const [x, y] = this.at(this.cursor);
    let best = this.cursor, least = Infinity;
    for (let i = 0; i < this.m; i++) {
      const [u, v] = this.at(i);
      const along = (u - x) * dx + (v - y) * dy, aside = Math.abs((u - x) * dy) + Math.abs((v - y) * dx);
      if (along > 0.5 && aside <= along && along + 2 * aside < least) [best, least] = [i, along + 2 * aside];
    }
    return best;
  }

  /** The path of a walk and where on it the point is, in data whose centre is `centre`; null takes it away. */
  walk(walk, centre) {
    this.walked = walk && { ...walk, shift: walk.centre.map((c, i) => c - centre[i]) };
    this.drawWalk();
  }

  drawWalk() {
    const { walked, plot } = this;
    this.walker.toggleAttribute("hidden", !walked);
    this.trail.toggleAttribute("hidden", !walked);
    if (!walked || !plot.box) return;
    const at = (x, y) => [plot.x(x + walked.shift[0]).toFixed(1), plot.y(y + walked.shift[1]).toFixed(1)];
    const steps = Array.from({ length: walked.track.length / 2 }, (_, i) => at(walked.track[2 * i], walked.track[2 * i + 1]).join(" "));
    this.trail.setAttribute("d", `M${steps.join("L")}`);
    const [cx, cy] = at(...walked.at);
    this.walker.setAttribute("cx", cx);
    this.walker.setAttribute("cy", cy);
  }

  /** Rings around some rows, such as the points of a witness. */
  ringed(rows, name) {
    const shown = rows.map((row) => this.indexOf(row)).filter((i) => i >= 0);
    this.plot.layers = this.plot.layers.filter((layer) => !layer.ringed);
    const layer = () => fill(this.marks, shown.map((i) => {
      const [cx, cy] = this.at(i);
      return s("circle", { class: "witness", cx, cy, r: 9 }, s("title", {}, name));
    }));
    this.plot.layers.push(Object.assign(layer, { ringed: true }));
    this.plot.paint();
  }
}

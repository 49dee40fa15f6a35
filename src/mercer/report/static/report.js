// The picture of the scores, alive: pointing, arrow keys, other components, labels on and off.
// The page is complete without this script; it draws again only what was drawn before.
"use strict";
(() => {
  const block = document.getElementById("scores-data");
  const figure = document.getElementById("scores-figure");
  if (!block || !figure) return;
  const data = JSON.parse(block.textContent);
  const svg = figure.querySelector("svg.live");
  const marks = svg.querySelector(".marks");
  const cursor = svg.querySelector(".cursor");
  const tip = document.getElementById("scores-tip");
  const choose = { x: document.getElementById("scores-x"), y: document.getElementById("scores-y") };
  const frame = data.frame;
  const hidden = new Set();
  const SPACE = "http://www.w3.org/2000/svg";

  // ── data ────────────────────────────────────────────────────────────────
  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0)).buffer;
  const isCells = data.kind === "cells";
  const codes = isCells ? null : new Uint8Array(bytes(data.codes));
  const columns = isCells ? null : data.axes.map((_, j) => new Float32Array(bytes(data.values)).subarray(j * data.n, (j + 1) * data.n));
  const unpacked = {};

  function cellsOf(i, j) {
    const key = `${Math.min(i, j)},${Math.max(i, j)}`;
    if (!unpacked[key]) {
      const pair = data.pairs[key];
      unpacked[key] = {
        x: pair.x, y: pair.y, places: new Uint16Array(bytes(pair.places)), counts: new Uint32Array(bytes(pair.counts)),
        codes: new Uint8Array(bytes(pair.codes)), majority: new Uint32Array(bytes(pair.majority)),
      };
    }
    const pair = unpacked[key];
    if (i < j) return pair;
    const b = data.bins;
    return { ...pair, x: pair.y, y: pair.x, places: pair.places.map((p) => (p % b) * b + Math.floor(p / b)) };
  }

  // ── scales and axes ─────────────────────────────────────────────────────
  const across = (range) => (v) => frame.left + ((v - range[0]) / (range[1] - range[0])) * (frame.width - frame.left - frame.right);
  const up = (range) => (v) => frame.height - frame.bottom - ((v - range[0]) / (range[1] - range[0])) * (frame.height - frame.top - frame.bottom);

  function rangeOf(column) {
    let low = Infinity, high = -Infinity;
    for (const v of column) { if (v < low) low = v; if (v > high) high = v; }
    if (low === high) { const half = 0.5 * Math.abs(low) || 0.5; low -= half; high += half; }
    const pad = data.margin * (high - low);
    return [low - pad, high + pad];
  }

  function ticks(range, most) {
    const raw = (range[1] - range[0]) / (most - 1);
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = power * [1, 2, 5, 10].find((s) => s * power >= raw * (1 - 1e-9));
    const found = [];
    for (let i = Math.ceil(range[0] / step - 1e-9); i <= Math.floor(range[1] / step + 1e-9); i++) found.push(Number((i * step).toPrecision(12)));
    return found;
  }

  function shown(value) {
    if (value === 0) return "0";
    const size = Math.abs(value);
    const text = size >= 1e-4 && size < 1e7 ? String(Number(value.toPrecision(size < 1e4 ? 4 : 7))) : value.toExponential(2);
    return text.replace("-", "−");
  }

  function made(name, attributes, text) {
    const element = document.createElementNS(SPACE, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  }

  function drawAxes(names, ranges) {
    const group = made("g", { class: "axes" });
    const bottom = frame.height - frame.bottom, right = frame.width - frame.right;
    const x = across(ranges[0]), y = up(ranges[1]);
    for (const t of ticks(ranges[0], 7)) {
      group.append(made("path", { d: `M${x(t).toFixed(1)} ${frame.top}V${bottom}`, class: "rule" }));
      group.append(made("text", { x: x(t).toFixed(1), y: bottom + 17, "text-anchor": "middle" }, shown(t)));
    }
    for (const t of ticks(ranges[1], 6)) {
      group.append(made("path", { d: `M${frame.left} ${y(t).toFixed(1)}H${right}`, class: "rule" }));
      group.append(made("text", { x: frame.left - 7, y: (y(t) + 4).toFixed(1), "text-anchor": "end" }, shown(t)));
    }
    group.append(made("text", { x: (frame.left + right) / 2, y: frame.height - 8, class: "axis", "text-anchor": "middle" }, names[0]));
    const turned = `translate(14 ${(frame.top + bottom) / 2}) rotate(-90)`;
    group.append(made("text", { transform: turned, class: "axis", "text-anchor": "middle" }, names[1]));
    svg.querySelector(".axes").replaceWith(group);
  }

  // ── marks ───────────────────────────────────────────────────────────────
  let view = { axes: [0, 1] };

  function look(axes) {
    if (isCells) {
      const cells = cellsOf(axes[0], axes[1]);
      view = { axes, cells, ranges: [cells.x, cells.y] };
    } else {
      const pair = axes.map((j) => columns[j]);
      const ranges = pair.map(rangeOf);
      view = { axes, pair, ranges, x: Float32Array.from(pair[0], across(ranges[0])), y: Float32Array.from(pair[1], up(ranges[1])) };
    }
  }

  // The ends of the marks are read off what Python drew: one place says what a square is.
  const ends = {};
  for (const path of marks.querySelectorAll("path")) {
    const first = path.getAttribute("d").match(/^M[-\d.]+ [-\d.]+([^M]*)/);
    if (first && !isCells) ends[path.dataset.code] = first[1];
  }

  function redraw() {
    drawAxes(view.axes.map((j) => data.axes[j]), view.ranges);
    svg.setAttribute("aria-label", `Scores: ${data.axes[view.axes[1]]} against ${data.axes[view.axes[0]]}`);
    if (isCells) { redrawCells(); return; }
    const d = {};
    for (let i = 0; i !== data.n; i++) {
      const code = codes[i];
      (d[code] = d[code] || []).push(`M${view.x[i].toFixed(1)} ${view.y[i].toFixed(1)}${ends[code]}`);
    }
    for (const path of marks.querySelectorAll("path")) path.setAttribute("d", (d[path.dataset.code] || []).join(""));
  }

  function redrawCells() {
    const b = data.bins, { places, counts, codes: own } = view.cells;
    const most = Math.max(2, counts.reduce((a, c) => Math.max(a, c), 0));
    const d = {};
    places.forEach((p, i) => {
      const level = Math.min(data.levels - 1, Math.floor((data.levels * Math.log(counts[i])) / Math.log(most)));
      const key = `${own[i]} ${level}`;
      (d[key] = d[key] || []).push(`M${p % b} ${Math.floor(p / b)}h1v1h-1z`);
    });
    marks.firstChild.replaceChildren(...Object.entries(d).map(([key, parts]) => {
      const [code, level] = key.split(" ");
      return made("path", { d: parts.join(""), class: `cell ${data.styles[code]} l${level}`, "data-code": code });
    }));
    hideMarks();
  }

  function hideMarks() {
    for (const path of marks.querySelectorAll("path")) path.style.display = hidden.has(Number(path.dataset.code)) ? "none" : "";
  }

  // ── what is under the pointer ───────────────────────────────────────────
  function point(event) {
    const box = svg.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * frame.width, ((event.clientY - box.top) / box.height) * frame.height];
  }

  const REACH = 24; // pixels of the picture
  function nearest(px, py) {
    let best = -1, least = REACH * REACH;
    const n = isCells ? view.cells.places.length : data.n;
    for (let i = 0; i !== n; i++) {
      if (hidden.has(isCells ? view.cells.codes[i] : codes[i])) continue;
      const [x, y] = place(i);
      const far = (x - px) ** 2 + (y - py) ** 2;
      if (far < least) { least = far; best = i; }
    }
    return best;
  }

  function place(i) {
    if (!isCells) return [view.x[i], view.y[i]];
    const b = data.bins, p = view.cells.places[i];
    const wide = (frame.width - frame.left - frame.right) / b, tall = (frame.height - frame.top - frame.bottom) / b;
    return [frame.left + wide * ((p % b) + 0.5), frame.height - frame.bottom - tall * (Math.floor(p / b) + 0.5)];
  }

  function words(i) {
    const names = view.axes.map((j) => data.axes[j]);
    if (!isCells) {
      const id = data.ids ? data.ids[i] : `row ${i + 1}`;
      const label = data.labels ? data.labels[i] : data.classes[codes[i]];
      const lines = names.map((name, a) => `${name}: ${shown(view.pair[a][i])}`);
      return [id, ...(label === undefined ? [] : [`label: ${label}`]), ...lines];
    }
    const { places, counts, majority, codes: own, x, y } = view.cells;
    const b = data.bins, ends = [[x, places[i] % b], [y, Math.floor(places[i] / b)]];
    const lines = ends.map(([r, at], a) => {
      const step = (r[1] - r[0]) / b;
      return `${names[a]}: ${shown(r[0] + at * step)} to ${shown(r[0] + (at + 1) * step)}`;
    });
    const share = `${((100 * majority[i]) / counts[i]).toFixed(0)} %`;
    const label = data.classes.length ? [`${share} ${data.classes[own[i]]}`] : [];
    return [`${counts[i].toLocaleString("en").replaceAll(",", "\u202f")} points`, ...label, ...lines];
  }

  let at = -1;
  function tell(i) {
    at = i;
    if (i === -1) { tip.hidden = true; cursor.setAttribute("d", ""); return; }
    const [x, y] = place(i), r = isCells ? 5 : data.radius + 4;
    cursor.setAttribute("d", `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0`);
    const [head, ...rest] = words(i);
    const title = document.createElement("b");
    title.textContent = head;
    tip.replaceChildren(title, ...rest.map((line) => Object.assign(document.createElement("span"), { textContent: line })));
    tip.hidden = false;
    const box = svg.getBoundingClientRect(), scale = box.width / frame.width;
    const left = x * scale, top = y * scale;
    tip.style.left = `${Math.max(0, Math.min(left + 14, box.width - tip.offsetWidth - 2))}px`;
    tip.style.top = `${top - tip.offsetHeight - 12 > 0 ? top - tip.offsetHeight - 12 : top + 14}px`;
  }

  svg.addEventListener("pointermove", (event) => tell(nearest(...point(event))));
  svg.addEventListener("pointerdown", (event) => tell(nearest(...point(event))));
  svg.addEventListener("pointerleave", () => tell(-1));
  svg.addEventListener("blur", () => tell(-1));

  // ── keys: the next mark that way ────────────────────────────────────────
  const WAYS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  svg.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { tell(-1); return; }
    const way = WAYS[event.key];
    if (!way) return;
    event.preventDefault();
    const [x0, y0] = at === -1 ? [frame.width / 2, frame.height / 2] : place(at);
    let best = at, least = Infinity;
    const n = isCells ? view.cells.places.length : data.n;
    for (let i = 0; i !== n; i++) {
      if (i === at || hidden.has(isCells ? view.cells.codes[i] : codes[i])) continue;
      const [x, y] = place(i);
      const along = (x - x0) * way[0] + (y - y0) * way[1], aside = Math.abs((x - x0) * way[1]) + Math.abs((y - y0) * way[0]);
      const far = along + 3 * aside;
      if (along > 0.01 && far < least) { least = far; best = i; }
    }
    tell(best);
  });

  // ── controls ────────────────────────────────────────────────────────────
  for (const which of ["x", "y"]) {
    choose[which].addEventListener("change", () => {
      const other = which === "x" ? "y" : "x";
      // The same component twice is a line: the other axis takes what this one had.
      if (choose.x.value === choose.y.value) choose[other].value = String(view.axes[which === "x" ? 0 : 1]);
      tell(-1);
      look([Number(choose.x.value), Number(choose.y.value)]);
      redraw();
    });
  }
  for (const button of figure.querySelectorAll(".legend button")) {
    button.addEventListener("click", () => {
      const code = Number(button.dataset.code), gone = hidden.has(code);
      if (gone) hidden.delete(code); else hidden.add(code);
      button.setAttribute("aria-pressed", String(gone));
      tell(-1);
      hideMarks();
    });
  }

  // A browser may keep what was chosen when a page is loaded again, and the picture is that of 0 and 1.
  choose.x.value = "0";
  choose.y.value = "1";
  look([0, 1]);
  figure.querySelector(".controls").hidden = false;
})();

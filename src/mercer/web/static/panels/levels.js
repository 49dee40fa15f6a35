// Level sets: a component as a function over the plane of the data, one colour where it is positive, another where negative.

import { contours } from "../vendor/d3-contour.js";
import { choice } from "../core/dom.js";
import { Plot } from "../draw/plot.js";
import { Cloud } from "../draw/cloud.js";
import { panel } from "./frame.js";
import { describe } from "./tip.js";

const BANDS = 7; // on either side of zero

/** Paths of bands on the grid, in grid units: [{sign, path}], from zero outwards. */
export function bands(values, reach) {
  const [height, width] = values.shape;
  const shape = contours().size([width, height]).smooth(true);
  const found = [];
  for (const sign of [-1, 1]) {
    const signed = sign > 0 ? values : values.map((v) => -v);
    const levels = Array.from({ length: BANDS }, (_, i) => (reach * i) / BANDS);
    for (const { coordinates } of shape.thresholds(levels)(signed)) found.push({ sign, coordinates });
  }
  return found;
}

function paintBands(context, plot, { found, x, y, across, up, theme }) {
  // d3-contour puts the value of cell i at i + ½.
  const sx = (x(across.at(-1)) - x(across[0])) / (across.length - 1), sy = (y(up.at(-1)) - y(up[0])) / (up.length - 1);
  const { left, top, width, height } = plot.box;
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.translate(x(across[0]) - sx / 2, y(up[0]) - sy / 2);
  for (const { sign, coordinates } of found) {
    const path = new Path2D();
    for (const ring of coordinates.flat()) {
      ring.forEach(([u, v], i) => (i ? path.lineTo(u * sx, v * sy) : path.moveTo(u * sx, v * sy)));
      path.closePath();
    }
    context.fillStyle = sign > 0 ? theme.high : theme.low;
    context.globalAlpha = 0.13;
    context.fill(path, "evenodd");
  }
}

function paintZero(context, plot, zero, ink) {
  const { left, top, width, height } = plot.box;
  context.beginPath();
  context.rect(left, top, width, height);
  context.clip();
  context.beginPath();
  for (let i = 0; i < zero.length; i += 4) {
    context.moveTo(plot.x(zero[i]), plot.y(zero[i + 1]));
    context.lineTo(plot.x(zero[i + 2]), plot.y(zero[i + 3]));
  }
  context.strokeStyle = ink;
  context.lineWidth = 1.4;
  context.lineCap = "round";
  context.stroke();
}

export function levelsPanel(session, { slot = "a", title = "Level sets" } = {}) {
  const { store } = session;
  const plot = new Plot("A component as a function over the plane of the data");
  const pick = choice("of", [], "", (value) => session.look({ level: Number(value) }));
  const frame = panel(session, title, { controls: slot === "a" ? [pick.root] : [], plot, slot });
  let drawn = null, placed = [null];
  plot.layers.push((context) => drawn && paintBands(context, plot, { ...drawn, x: plot.x, y: plot.y, theme: plot.theme }));
  plot.layers.push((context) => drawn && paintZero(context, plot, drawn.zero, plot.theme.ink));
  const cloud = new Cloud(plot, {
    hover: (row) => store.set({ hover: row }),
    select: (rows, how) => session.select(rows, how),
    describe: (row) => describe(session, row),
  }, true);

  function rowsOver(rows) {
    if (!rows || !drawn || rows.header.shown.how === "density") return;
    const { points, codes = null, shade = null, rows: numbers = null } = rows.arrays;
    // Both packets have a centre of their own; the plot uses that of the level sets.
    const [dx, dy] = rows.header.centre.map((c, i) => c - drawn.centre[i]);
    const now = [rows, dx, dy];
    if (placed.every((each, i) => each === now[i])) return; // a drag moves the level sets, not the rows
    placed = now;
    cloud.place({ xy: dx || dy ? points.map((v, i) => v + (i % 2 ? dy : dx)) : points, rows: numbers, codes, shade });
  }

  function draw(answer) {
    const { header, arrays } = answer;
    const info = header.panels.levels;
    if (!info || info.error || !arrays.levels) return frame.say(info?.error?.message ?? "This fit has no level sets over a plane.");
    const reach = Array.isArray(info.reach) ? info.reach[0] : info.reach;
    drawn = { found: bands(arrays.levels, reach), across: arrays.across, up: arrays.up, zero: arrays.zero ?? new Float32Array(0), centre: info.centre ?? [0, 0] };
    const ends = (values) => [values[0], values.at(-1)];
    plot.show({ x: ends(arrays.across), y: ends(arrays.up), shift: drawn.centre, xlabel: info.axes[0], ylabel: info.axes[1] });
    rowsOver(store.state.rows);
    const key = "Green is positive, purple negative.";
    frame.ready({ caption: [info.caption, info.where, key].filter(Boolean).map((t) => (/[.]$/.test(t) ? t : `${t}.`)).join(" "), tables: info.tables, key: answer.key });
  }

  const keys = slot === "a" ? ["fit", "fitProblem"] : ["otherFit", "otherProblem"];
  store.on(keys, (state) => {
    if (state[keys[1]]) return frame.say(state[keys[1]].message);
    if (!state[keys[0]]) return frame.say("Fitting.");
    draw(state[keys[0]]);
  });
  store.on(["fit", "view"], ({ fit, view }) => fit && pick.set(Array.from({ length: fit.header.fit.components }, (_, i) => [i, `component ${i + 1}`]), view.level));
  store.on(["rows"], ({ rows }) => rowsOver(rows));
  store.on(["selection"], ({ selection }) => cloud.select(selection));
  // A walk goes along a component of kernel A: over the level sets of another kernel it means nothing.
  if (slot === "a") store.on(["walker", "fit"], ({ walker }) => cloud.walk(drawn && walker, drawn?.centre ?? [0, 0]));
  store.on(["hover"], ({ hover }) => cloud.follow(hover));
  return { ...frame, plot, cloud };
}

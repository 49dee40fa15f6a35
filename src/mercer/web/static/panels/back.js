// Pre-images: the rows taken to their scores and back to input space, beside what always answering with the mean would lose.

import { choice, fill, h } from "../core/dom.js";
import { Cloud } from "../draw/cloud.js";
import { Plot } from "../draw/plot.js";
import { extent, number } from "../draw/scale.js";
import { newest } from "../core/lane.js";
import { coloursFor, keyOf } from "../core/session.js";
import { isStale } from "../core/wire.js";
import { panel } from "./frame.js";
import { describe } from "./tip.js";

const THREADS = 600; // rows whose way to their pre-image is drawn as a line

/** Two bars: the error of the pre-images and that of the mean, which a model must beat. */
function meter({ rms, mean_rms: mean }) {
  if (!(mean > 0)) return null;
  const share = rms / mean;
  const bar = (value, kind) => {
    const fillBar = h("span", { class: `filled ${kind}` });
    fillBar.style.width = `${Math.min(100, (100 * value) / Math.max(rms, mean))}%`;
    return h("span", { class: "track" }, fillBar);
  };
  return [h("dl", { class: "meter" },
    h("div", {}, h("dt", {}, "pre-images"), h("dd", {}, bar(rms, share < 1 ? "good" : "bad"), number(rms))),
    h("div", {}, h("dt", {}, "the mean"), h("dd", {}, bar(mean, "plain"), number(mean)))), share < 1 ? null : h("p", { class: "note" }, "No better than always answering with the mean.")];
}

export function backPanel(session) {
  const { store } = session;
  const plot = new Plot("Rows and their pre-images");
  const extra = h("div", { class: "back-extra" });
  const body = h("div", {}, plot.root, extra);
  const way = choice("by", session.info.preimages.map((name) => [name, name]), "ridge", (value) => session.cook({ preimage: value }));
  const frame = panel(session, "Pre-image", { body, controls: [way.root], waits: "Pre-images are drawn when the fit is at rest." });
  plot.root.setAttribute("aria-describedby", frame.caption.id);
  let answer = null;
  const cloud = new Cloud(plot, {
    hover: (row) => store.set({ hover: row }),
    select: (rows, how) => session.select(rows, how),
    describe: (row) => [...(describe(session, row) ?? []), ...lost(row)],
  });
  const lost = (row) => {
    const i = cloud.indexOf(row), error = answer?.arrays.row_error?.[i];
    return error === undefined ? [] : [`error ${number(error)}`];
  };

  /** Where each row was, relative to the centre of the pre-images. */
  function sources() {
    const { rows } = store.state;
    if (!rows?.arrays.points) return null;
    const from = rows.header.centre, to = answer.info.centre;
    const place = rows.arrays.rows && new Map(Array.from(rows.arrays.rows, (row, i) => [row, i]));
    return (row) => {
      const i = place ? place.get(row) : row;
      return i === undefined ? null : [rows.arrays.points[2 * i] + from[0] - to[0], rows.arrays.points[2 * i + 1] + from[1] - to[1]];
    };
  }

  plot.layers.unshift((context) => {
    if (!answer || cloud.m > THREADS) return;
    const source = sources();
    if (!source) return;
    context.strokeStyle = plot.theme.muted;
    context.lineWidth = 0.8;
    context.beginPath();
    for (let i = 0; i < cloud.m; i++) {
      const at = source(cloud.rowOf(i));
      if (!at) continue;
      context.moveTo(plot.x(at[0]), plot.y(at[1]));
      context.lineTo(...cloud.at(i));
    }
    context.stroke();
  });

  // Pre-images of thousands of rows take seconds: they are asked for by themselves, beside the fits.
  const lane = newest(async ({ table, recipe, view }, signal) => {
    const body = { generation: ++session.generation, table: table.id, recipe, plane: view.plane };
    const { header, arrays } = await session.ask("back", body, { signal });
    if (table === store.state.table && recipe === store.state.recipe) draw(header, arrays, keyOf(recipe));
  }, { failed: (error) => isStale(error) || frame.say(error.message) });
  store.on(["recipe", "table"], () => lane.cancel());

  store.on(["rest", "fitProblem"], ({ rest, fitProblem, table, recipe, view }) => {
    if (fitProblem || !rest) answer = null;
    if (fitProblem) return frame.say(fitProblem.message);
    if (!rest) {
      return frame.say("Pre-images are drawn when the fit is at rest.");
    }
    const info = rest.header.panels.back;
    if (!info || info.error) return frame.say(info?.error?.message ?? "This fit has no pre-images.");
    if (!info.later) return draw(info, rest.arrays, rest.key);
    if (!answer) frame.say(info.later);
    lane.push({ table, recipe, view });
  });

  function draw(info, arrays, key) {
    answer = { info, arrays };
    const xy = arrays.back, numbers = arrays.back_rows ?? null;
    const all = store.state.rows?.arrays.points;
    const shift = store.state.rows?.header.centre.map((c, i) => c - info.centre[i]) ?? [0, 0];
    const joined = (j) => {
      const [a, b] = extent(xy, j, 2, 0.05), [c, d] = all ? extent(all, j, 2, 0.05).map((v) => v + shift[j]) : [a, b];
      return [Math.min(a, c), Math.max(b, d)];
    };
    plot.show({ x: joined(0), y: joined(1), equal: true, shift: info.centre, xlabel: info.axes[0], ylabel: info.axes[1] });
    cloud.place({ xy, rows: numbers, ...coloursFor(store.state.rows, numbers, xy.length / 2) });
    fill(extra, meter(info), h("details", {}, h("summary", {}, "Method"), h("p", { class: "note" }, info.method), h("p", { class: "note" }, info.quality)));
    frame.ready({ caption: info.caption, tables: info.tables, key });
  }
  store.on(["recipe"], ({ recipe }) => recipe && (way.select.value = recipe.preimage ?? "ridge"));
  store.on(["rows"], ({ rows }) => rows && answer && cloud.colour(...Object.values(coloursFor(rows, cloud.rows, cloud.m))));
  store.on(["selection"], ({ selection }) => cloud.select(selection));
  store.on(["hover"], ({ hover }) => cloud.follow(hover));
  return { ...frame, plot, cloud };
}


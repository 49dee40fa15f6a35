// The data: any two columns, or the plane of their principal components.

import { choice } from "../core/dom.js";
import { Cloud } from "../draw/cloud.js";
import { Plot } from "../draw/plot.js";
import { extent } from "../draw/scale.js";
import { panel } from "./frame.js";
import { describe } from "./tip.js";

/** Choices of the plane that data, level sets and pre-images share. */
function planeChoices(session) {
  const axis = (i) => choice(i ? "up" : "across", [], "", (value) => {
    if (value === "pca") return session.look({ plane: { pca: true } });
    const now = session.state.view.plane.columns ?? [0, Math.min(1, session.state.table.d - 1)];
    session.look({ plane: { columns: i ? [now[0], Number(value)] : [Number(value), now[1]] } });
  });
  const axes = [axis(0), axis(1)];
  session.store.on(["table", "view"], ({ table, view }) => {
    if (!table || !view) return;
    const pairs = table.features.map((name, i) => [i, name]);
    const pca = table.d > 1 ? [["pca", "PCA of all"]] : [];
    axes[0].set([...pca, ...pairs], view.plane.pca ? "pca" : view.plane.columns[0]);
    axes[1].set(view.plane.pca ? [["", "second axis"]] : pairs, view.plane.pca ? "" : view.plane.columns[1]);
    axes[1].select.disabled = Boolean(view.plane.pca);
  });
  return axes.map((each) => each.root);
}

export function dataPanel(session) {
  const { store } = session;
  const plot = new Plot("Rows of the table");
  const frame = panel(session, "Data", { controls: planeChoices(session), plot, waits: "Waiting for rows." });
  const cloud = new Cloud(plot, {
    hover: (row) => store.set({ hover: row }),
    select: (rows, how) => session.select(rows, how),
    describe: (row) => describe(session, row),
  });
  store.on(["rows", "rowsProblem"], ({ rows, rowsProblem }) => {
    if (rowsProblem) return frame.say(rowsProblem.message);
    if (!rows) return frame.say("Reading rows.");
    const { header, arrays } = rows;
    const [x, y] = header.shown.how === "density" ? header.extent : [extent(arrays.points, 0, 2), extent(arrays.points, 1, 2)];
    plot.show({ x, y, equal: true, shift: header.shown.how === "density" ? [0, 0] : header.centre, xlabel: header.axes[0], ylabel: header.axes[1] });
    if (header.shown.how === "density") cloud.count(arrays.density, header.extent);
    else cloud.place({ xy: arrays.points, rows: arrays.rows ?? null, codes: arrays.codes ?? null, shade: arrays.shade ?? null });
    frame.badge(header.shown.how === "all" ? "" : header.shown.how);
    frame.ready({ caption: said(header.shown, header.caption), tables: header.tables, key: rows.key });
  });
  store.on(["selection"], ({ selection }) => cloud.select(selection));
  store.on(["hover"], ({ hover }) => cloud.follow(hover));
  store.on(["witness", "rows"], ({ witness }) => cloud.ringed(witness?.rows ?? [], "point of the witness"));
  store.on(["walker", "rows"], ({ walker, rows }) => cloud.walk(rows && walker, rows?.header.centre ?? [0, 0]));
  return { ...frame, plot, cloud };
}

export const ended = (text) => (/[.!?]$/.test(text) ? text : `${text}.`);

/** The caption, and which rows are shown where these are not all. */
export const said = (shown, caption) => [caption, shown.how === "all" || caption?.includes(shown.words) ? "" : shown.words].filter(Boolean).map(ended).join(" ");

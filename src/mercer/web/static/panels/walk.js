// A walk: a point moves along one component, and its pre-image shows what that means in the variables of the table.

import { button, choice, fill, fresh, h, s } from "../core/dom.js";
import { newest } from "../core/lane.js";
import { keyOf } from "../core/session.js";
import { isStale } from "../core/wire.js";
import { icon } from "../draw/icons.js";
import { Plot } from "../draw/plot.js";
import { number } from "../draw/scale.js";
import { panel } from "./frame.js";
import { imageBox, paintImage } from "./image.js";

const STEPS = 41;
const CURVE = 24; // more columns than that are one curve rather than a strip each
const MOST = 12; // strips

/** Columns as small curves over the walk, those that move most first; `at(step)` moves the dots. */
function strips(names, path, d) {
  const steps = path.length / d, value = (t, j) => path[t * d + j];
  const ends = names.map((_, j) => {
    const column = Array.from({ length: steps }, (_, t) => value(t, j));
    return [Math.min(...column), Math.max(...column)];
  });
  const order = names.map((_, j) => j).sort((a, b) => ends[b][1] - ends[b][0] - (ends[a][1] - ends[a][0])).slice(0, MOST);
  const up = (t, j) => 92 - (84 * (value(t, j) - ends[j][0])) / (ends[j][1] - ends[j][0] || 1);
  const rows = order.map((j) => {
    const d = `M${Array.from({ length: steps }, (_, t) => `${((100 * t) / (steps - 1)).toFixed(1)} ${up(t, j).toFixed(1)}`).join("L")}`;
    const dot = h("span", { class: "dot" }), text = h("span", { class: "value" });
    const strip = h("span", { class: "strip" }, s("svg", { viewBox: "0 0 100 100", preserveAspectRatio: "none", "aria-hidden": "true" }, s("path", { d, class: "curve", "vector-effect": "non-scaling-stroke" })), dot);
    return { j, dot, text, root: h("li", {}, h("span", { class: "name" }, names[j]), strip, text) };
  });
  const note = names.length > order.length ? h("p", { class: "note" }, `The ${order.length} columns that move most, of ${names.length}.`) : null;
  return {
    root: h("div", {}, h("ol", { class: `moves strips${rows.length < 5 ? " few" : ""}` }, rows.map((each) => each.root)), note),
    at(step) {
      for (const { j, dot, text } of rows) {
        dot.style.left = `${(100 * step) / (steps - 1)}%`;
        dot.style.top = `${up(step, j)}%`;
        text.textContent = number(value(step, j), 4);
      }
    },
  };
}

export function walkPanel(session) {
  const { store, ask } = session;
  const pick = choice("along", [], "", (value) => session.look({ walk: Number(value) }));
  const from = choice("from", [], "mean", (value) => session.look({ from: value === "mean" ? "mean" : { row: Number(value) } }));
  const id = fresh("walk");
  const range = h("input", { type: "range", id, min: 0, max: STEPS - 1, step: 1, value: 20, on: { input: () => draw() } });
  const where = h("output", { for: id });
  const play = button("Play the walk", () => toggle(), { icon: icon("play"), kind: "quiet" });
  const shown = h("div", { class: "walked" });
  const body = h("div", { class: "walk" }, shown, h("div", { class: "slider" }, play, h("label", { for: id, class: "unseen" }, "place along the component"), range, where));
  const frame = panel(session, "Walk", { controls: [pick.root, from.root], body, waits: "The walk begins when the fit is at rest." });
  const images = [imageBox("here"), imageBox("where it began")];
  const curve = new Plot("The columns of the point, in their order", { height: 0.5 });
  const line = s("path", { class: "curve" }), base = s("path", { class: "curve base" });
  curve.over.append(base, line);
  let walk = null, timer = null;

  function draw() {
    if (!walk) return;
    const { header, arrays } = walk, { path, t } = arrays, d = path.shape[1], step = Number(range.value);
    range.setAttribute("aria-valuetext", where.textContent = `score ${number(t[step])}`);
    const row = path.subarray(step * d, (step + 1) * d), start = path.subarray(walk.start * d, (walk.start + 1) * d);
    if (header.image_shape) {
      paintImage(images[0].canvas, row, header.image_shape, header.low, header.high);
      paintImage(images[1].canvas, arrays.original ?? start, header.image_shape, header.low, header.high);
    } else if (d > CURVE) drawCurve(row, start);
    else walk.strips.at(step);
    store.set({ walker: arrays.track ? { at: [arrays.track[2 * step], arrays.track[2 * step + 1]], track: arrays.track, centre: header.centre } : null });
  }

  function drawCurve(row, start) {
    const points = (values) => `M${Array.from(values, (v, j) => `${curve.x(j + 1).toFixed(1)} ${curve.y(v).toFixed(1)}`).join("L")}`;
    const low = walk.arrays.path.reduce((a, b) => Math.min(a, b), Infinity), high = walk.arrays.path.reduce((a, b) => Math.max(a, b), -Infinity);
    curve.layers = [() => {
      line.setAttribute("d", points(row));
      base.setAttribute("d", points(start));
    }];
    curve.show({ x: [1, row.length], y: [low, high], xlabel: "column", ylabel: "value" });
  }

  function toggle(on = !timer) {
    clearInterval(timer);
    timer = null;
    fill(play, icon(on ? "pause" : "play"));
    play.setAttribute("aria-label", on ? "Pause the walk" : "Play the walk");
    let way = 1;
    if (on) timer = setInterval(() => {
      const at = Number(range.value);
      if (at + way < 0 || at + way >= STEPS) way = -way;
      range.value = at + way;
      draw();
    }, matchMedia("(prefers-reduced-motion: reduce)").matches ? 600 : 70);
  }

  const lane = newest(async ({ table, recipe, view }, signal) => {
    const body = { table: table.id, recipe, component: view.walk, at: view.from, steps: STEPS, plane: view.plane };
    const answer = await ask("walk", body, { signal });
    if (table !== store.state.table) return;
    const start = answer.header.start ?? 20;
    const again = walk && walk.table === table && walk.component === view.walk;
    walk = { ...answer, start, table, component: view.walk };
    if (!again) range.value = start;
    const d = answer.arrays.path.shape[1];
    if (!answer.header.image_shape && d <= CURVE) walk.strips = strips(answer.header.names, answer.arrays.path, d);
    fill(shown, answer.header.image_shape ? h("div", { class: "images" }, images.map((each) => each.root)) : walk.strips?.root ?? curve.root);
    frame.ready({ caption: answer.header.caption, tables: answer.header.tables, key: keyOf(recipe) });
    draw();
  }, { failed: (error) => isStale(error) || frame.say(error.message) });
  store.on(["recipe", "table"], () => lane.cancel());

  let asked = "";
  store.on(["rest", "view", "selection", "table", "fitProblem"], ({ rest, view, table, recipe, selection, fitProblem }) => {
    if (!rest || !view) {
      asked = "";
      walk = null;
      return frame.say(fitProblem?.message ?? "The walk begins when the fit is at rest.");
    }
    if (rest.header.panels.back?.error) {
      asked = "";
      walk = null;
      return frame.say(rest.header.panels.back.error.message);
    }
    const k = rest.header.fit.components;
    pick.set(Array.from({ length: k }, (_, i) => [i, `component ${i + 1}`]), Math.min(view.walk, k - 1));
    const rows = [...new Set([...(view.from === "mean" ? [] : [view.from.row]), ...selection.sorted().slice(0, 20)])];
    from.set([["mean", "the mean"], ...rows.map((row) => [row, `row ${row}`])], view.from === "mean" ? "mean" : view.from.row);
    const now = JSON.stringify([table.id, rest.header.recipe, rest.header.generation, view.walk, view.from, view.plane]);
    if (now === asked) return;
    asked = now;
    if (!walk) frame.say("Taking the steps of the walk back to input space.");
    lane.push({ table, recipe, view: { ...view, walk: Math.min(view.walk, k - 1) } });
  });
  store.on(["invalid"], ({ invalid }) => (invalid ? store.set({ walker: null }) : draw())); // its point is one of the kernel that was
  return { ...frame, range };
}

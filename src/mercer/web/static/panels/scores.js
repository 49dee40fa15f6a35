// Scores on two components, or on three that a drag turns.

import { button, choice, h } from "../core/dom.js";
import { coloursFor } from "../core/session.js";
import { Cloud } from "../draw/cloud.js";
import { Plot } from "../draw/plot.js";
import { extent } from "../draw/scale.js";
import { said } from "./data.js";
import { panel } from "./frame.js";
import { describe } from "./tip.js";

/** A point of three coordinates as it is seen from an angle. */
function seen([x, y, z], { yaw, pitch }) {
  const [cy, sy, cp, sp] = [Math.cos(yaw), Math.sin(yaw), Math.cos(pitch), Math.sin(pitch)];
  return [cy * x + sy * z, cp * y - sp * (cy * z - sy * x)];
}

/** (m, 3) seen from an angle: (m, 2), each axis first divided by its reach so that none vanishes. */
export function turned(scores, angle) {
  const m = scores.length / 3, out = new Float32Array(2 * m);
  const reach = [0, 1, 2].map((j) => Math.max(...extent(scores, j, 3, 0).map(Math.abs)) || 1);
  for (let i = 0; i < m; i++) out.set(seen([0, 1, 2].map((j) => scores[3 * i + j] / reach[j]), angle), 2 * i);
  return out;
}

/** The three axes, each with the number of its component at the end. */
function drawAxes(context, plot, components, angle) {
  Object.assign(context, { strokeStyle: plot.theme.soft, fillStyle: plot.theme.ink, lineWidth: 1, font: "11px sans-serif", textAlign: "center", textBaseline: "middle" });
  components.forEach((component, j) => {
    const tip = seen([0, 1, 2].map((i) => (i === j ? 1.15 : 0)), angle), [x, y] = [plot.x(tip[0]), plot.y(tip[1])];
    context.beginPath();
    context.moveTo(plot.x(0), plot.y(0));
    context.lineTo(x, y);
    context.stroke();
    context.fillText(String(component + 1), x + 8 * Math.sign(tip[0]), y - 8 * Math.sign(tip[1]));
  });
}

function componentChoices(session) {
  const pick = (i) => choice(["component across", "component up", "component in depth"][i], [], "", (value) => {
    const next = [...session.state.view.components];
    if (value === "none") next.length = 2;
    else next[i] = Number(value);
    session.look({ components: next });
  }, { hideLabel: true });
  const picks = [pick(0), pick(1), pick(2)];
  session.store.on(["fit", "view"], ({ fit, view }) => {
    if (!fit || !view) return;
    const options = Array.from({ length: fit.header.fit.components }, (_, i) => [i, String(i + 1)]);
    picks[0].set(options, view.components[0]);
    picks[1].set(options, view.components[1]);
    picks[2].set([["none", "–"], ...options], view.components[2] ?? "none");
  });
  return [h("span", { class: "words", "aria-hidden": "true" }, "components"), ...picks.map((each) => each.root)];
}

export function scoresPanel(session, { slot = "a", title = "Scores", linked = true } = {}) {
  const { store } = session;
  const plot = new Plot("Scores of the rows on components");
  const frame = panel(session, title, { controls: linked ? componentChoices(session) : [], plot, slot });
  const angle = { yaw: 0.6, pitch: 0.4 };
  let answer = null;
  plot.layers.push((context) => answer?.arrays.scores?.shape[1] === 3 && drawAxes(context, plot, answer.header.panels.scores.components, angle));
  const cloud = new Cloud(plot, {
    hover: (row) => store.set({ hover: row }),
    select: (rows, how) => session.select(rows, how),
    describe: (row) => describe(session, row),
    turn(dx, dy) {
      if (answer?.arrays.scores?.shape[1] !== 3) return false;
      angle.yaw += dx / 120;
      angle.pitch = Math.max(-1.5, Math.min(1.5, angle.pitch + dy / 120));
      draw();
      return true;
    },
  });

  function draw() {
    const { header, arrays } = answer;
    const info = header.panels.scores;
    if (info.error) return frame.say(info.error.message);
    const tables = info.tables, caption = [said(header.shown, info.caption), header.fit.badge && `${header.fit.badge[0].toUpperCase()}${header.fit.badge.slice(1)}.`].filter(Boolean).join(" ");
    if (header.shown.how === "density") {
      cloud.count(arrays.score_density, info.extent);
      plot.show({ x: info.extent[0], y: info.extent[1], xlabel: info.axes[0], ylabel: info.axes[1] });
      return frame.ready({ caption, tables, key: answer.key });
    }
    const deep = arrays.scores.shape[1] === 3;
    const xy = deep ? turned(arrays.scores, angle) : arrays.scores;
    const ranges = deep ? { x: [-1.45, 1.45], y: [-1.45, 1.45], xticks: [], yticks: [] } : { x: extent(xy, 0, 2), y: extent(xy, 1, 2), xticks: null, yticks: null };
    const [xlabel, ylabel] = deep ? [`components ${info.components.map((j) => j + 1).join(", ")}; a drag turns them`, ""] : info.axes;
    plot.show({ ...ranges, equal: deep, xlabel, ylabel });
    const numbers = arrays.rows ?? null;
    cloud.place({ xy, rows: numbers, ...coloursFor(store.state.rows, numbers, xy.length / 2) });
    frame.ready({ caption, tables, key: answer.key });
  }

  const keys = slot === "a" ? ["fit", "fitProblem"] : ["otherFit", "otherProblem"];
  store.on(keys, (state) => {
    const problem = state[keys[1]];
    answer = state[keys[0]];
    if (problem) return frame.say(problem.message, problem.code === "stopped" && button("Fit again", () => session.push("rest"), { kind: "primary" }));
    if (!answer) return frame.say("Fitting.");
    frame.badge(answer.header.fit.badge);
    draw();
  });
  store.on(["rows"], ({ rows }) => rows && answer && cloud.m && cloud.colour(...Object.values(coloursFor(rows, cloud.rows, cloud.m))));
  store.on(["selection"], ({ selection }) => cloud.select(selection));
  store.on(["hover"], ({ hover }) => cloud.follow(hover));
  return { ...frame, plot, cloud };
}

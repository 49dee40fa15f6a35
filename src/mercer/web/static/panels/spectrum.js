// The spectrum: each component's share of the variance, their sum, the 95 % line, and how far the numbers can be trusted.

import { fill, h, s } from "../core/dom.js";
import { Plot } from "../draw/plot.js";
import { number, percent } from "../draw/scale.js";
import { ended } from "./data.js";
import { panel } from "./frame.js";

const MOST = 40; // bars

function bars(plot, { shares, running, bounds, k }, chosen, pick) {
  const wide = Math.min(34, (plot.x(2) - plot.x(1)) * 0.66);
  const floor = plot.y(0);
  const column = (i) => {
    const x = plot.x(i + 1), y = plot.y(shares[i]);
    const name = `component ${i + 1}: ${running ? `${percent(shares[i], 2)}, together ${percent(running[i], 2)}` : number(shares[i])}`;
    return s("g", { class: i === chosen ? "bar chosen" : "bar", on: { click: () => pick(i) } },
      s("rect", { class: "reach", x: x - wide * 0.75, y: plot.box.top, width: wide * 1.5, height: plot.box.height }),
      s("rect", { class: "value", x: x - wide / 2, y, width: wide, height: Math.max(1, floor - y), rx: 1.5 }), s("title", {}, name));
  };
  const whisker = (i) => {
    const x = plot.x(i + 1), [low, high] = [bounds[2 * i], bounds[2 * i + 1]].map(plot.y);
    return low - high < 1.5 ? null : s("path", { class: "whisker", d: `M${x} ${low}V${high}M${x - 4} ${low}h8M${x - 4} ${high}h8` });
  };
  const at = Array.from({ length: k }, (_, i) => i);
  if (!running) return at.map(column);
  const line = `M${at.map((i) => `${plot.x(i + 1).toFixed(1)} ${plot.y(running[i]).toFixed(1)}`).join("L")}`;
  return [at.map(column), bounds ? at.map(whisker) : null, s("path", { class: "sum", d: line }),
    k <= 20 ? at.map((i) => s("circle", { class: "sum-dot", cx: plot.x(i + 1), cy: plot.y(running[i]), r: 3 })) : null];
}

export function spectrumPanel(session) {
  const { store } = session;
  const plot = new Plot("Share of the variance of each component", { margin: { right: 14 } });
  const reached = h("span", { class: "words" });
  const frame = panel(session, "Spectrum", { plot, controls: [reached] });
  plot.root.classList.add("pressable");
  const group = s("g");
  plot.over.append(group);
  let drawn = null;
  const pick = (i) => session.look({ level: i, walk: i });
  plot.layers.push(() => {
    if (!drawn) return;
    const goal = plot.y(drawn.enough);
    const right = plot.box.left + plot.box.width;
    const own = bars(plot, drawn, store.state.view.level, pick);
    if (!drawn.running) return fill(group, own);
    const place = drawn.running[0] < 0.8 * drawn.enough ? { x: plot.box.left + 6, y: goal - 5 } : { x: right - 6, y: goal + 13, "text-anchor": "end" }; // the sum is not there
    fill(group, own, s("line", { class: "goal", x1: plot.box.left, x2: right, y1: goal, y2: goal }),
      s("text", { class: "goal-text", ...place }, percent(drawn.enough, 0)));
  });
  const ticks = (k) => {
    const every = Math.ceil(k / 12);
    return Array.from({ length: k }, (_, i) => i + 1).filter((i) => k <= 12 || i === 1 || i % every === 0);
  };

  store.on(["fit", "fitProblem"], ({ fit, fitProblem }) => {
    if (fitProblem) return frame.say(fitProblem.message);
    if (!fit) return frame.say("Fitting.");
    const info = fit.header.panels.spectrum, indefinite = info.shares === false;
    const { shares = indefinite ? fit.arrays.eigenvalues : null, running = null, bounds = null } = fit.arrays;
    if (info.error || !shares) return frame.say(info.error?.message ?? "This fit has no spectrum.");
    const k = Math.min(shares.length, MOST);
    drawn = { shares, running, bounds, k, enough: info.enough ?? 0.95 };
    plot.ticksAt = ticks(k);
    plot.show({ x: [0.35, k + 0.65], y: [0, indefinite ? 1.06 * shares[0] : Math.max(1.04, running[k - 1] * 1.04)], xlabel: "component", ylabel: indefinite ? "eigenvalue" : "share of the variance" });
    const cut = shares.length > k ? `The first ${k} of ${shares.length} are drawn.` : "";
    const goal = percent(drawn.enough, 0);
    reached.textContent = indefinite ? "no shares: the kernel is indefinite" : info.reached ? `${goal} of the variance with ${info.reached} component${info.reached > 1 ? "s" : ""}` : `${goal} of the variance is not reached`;
    frame.badge(info.certificate ? "certified" : "", "good");
    frame.ready({ caption: [info.caption, info.certificate || info.evidence, cut].filter(Boolean).map(ended).join(" "), tables: info.tables, key: fit.key });
  });
  store.on(["view"], () => plot.paint());
  const whole = plot.ticks.bind(plot);
  plot.ticks = (scale, shift, most) => (scale === plot.x && plot.ticksAt ? plot.ticksAt.map((i) => ({ at: scale(i), text: String(i) })) : whole(scale, shift, most));
  return { ...frame, plot };
}

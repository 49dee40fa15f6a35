// Two kernels side by side on the same rows: what is selected, coloured or pointed at is so in both.

import { button, fill, h } from "../core/dom.js";
import { rival } from "../core/session.js";
import { kernelField } from "../controls/kernel.js";
import { panel } from "./frame.js";
import { levelsPanel } from "./levels.js";
import { scoresPanel } from "./scores.js";

/** The same figures of both fits, in a table. */
function figures(a, b) {
  const line = (name, read) => h("tr", {}, h("th", { scope: "row" }, name), [a, b].map((fit) => h("td", {}, read(fit))));
  const whole = (fit) => fit.header.panels.spectrum.shares !== false; // an indefinite kernel has none
  const share = (fit) => !whole(fit) ? "no shares: indefinite" : `${(100 * fit.arrays.running.at(-1)).toFixed(1)} %`;
  const reached = (fit) => fit.header.panels.spectrum.reached ?? (whole(fit) ? "not reached" : "no shares: indefinite");
  return h("table", { class: "versus" }, h("caption", { class: "unseen" }, "Both fits"),
    h("thead", {}, h("tr", {}, h("td", {}), [a, b].map((fit, i) => h("th", { scope: "col" }, `${"AB"[i]}: ${fit.header.fit.kernel}`)))),
    h("tbody", {}, line("share of its own variance in component 1", (fit) => (whole(fit) ? `${(100 * fit.arrays.shares[0]).toFixed(1)} %` : "no shares: indefinite")), line("share of its own variance in all components", share),
      line("components for 95 %", reached), line("components kept", (fit) => String(fit.header.fit.components))));
}

/** Whether one of the two can't be used. */
const wrong = (session) => session.wrong("a") ?? session.wrong("b");

/** What the kernels are compared by: labels that a line tells, where there are any. */
function leading(session, frame) {
  const words = h("p", { class: "lede", "aria-live": "polite" });
  let asked = "";
  async function refresh() {
    const { rest, otherFit, table, view, other, recipe, otherProblem, fitProblem } = session.state;
    if (!other || otherProblem || fitProblem || wrong(session)) return void ([asked, words.textContent] = ["", ""]);
    if (!frame.visible || !rest || !otherFit || otherFit.header.quality === "drag") return;
    const body = { table: table.id, recipe, other: rival(recipe, other), components: view.components };
    const mine = JSON.stringify(body);
    if (mine === asked) return;
    asked = mine;
    words.textContent = "Trying a straight line on the scores of both.";
    const found = await session.ask("separate", body).catch((error) => ({ words: error.message }));
    if (mine === asked) words.textContent = found.words;
  }
  return { words, refresh };
}

export function comparePanel(session) {
  const { store } = session;
  const field = kernelField(session, { label: "Kernel B", value: () => store.state.other ?? "", change: (text) => store.set({ other: text, otherProblem: null }), wrong: (otherInvalid) => store.set({ otherInvalid }), slot: "b" });
  const scores = scoresPanel(session, { slot: "b", title: "Scores, kernel B", linked: false });
  const levels = levelsPanel(session, { slot: "b", title: "Level sets, kernel B" });
  const both = h("div", { class: "both" });
  const start = h("p", { class: "note" });
  const grid = h("div", { class: "grid two", hidden: true }, scores.root, levels.root);
  const body = h("div", { class: "compare" });
  const frame = panel(session, "Compare two kernels", { body, kind: "wide", waits: "Waiting for a fit." });
  const lead = leading(session, frame);
  fill(body, field.root, start, lead.words, both, grid);
  const suggest = ["linear()", "rbf(gamma='median')", "poly(degree=2)"];
  fill(start, "Try ", suggest.map((text) => button(text, () => store.set({ other: text, otherProblem: null }), { kind: "chip" })), " against the kernel of the model.");

  store.on(["fit", "otherFit", "other", "otherProblem", "fitProblem", "invalid", "otherInvalid"], ({ fit, other, otherFit, otherProblem, fitProblem }) => {
    if (!fit) return frame.say(fitProblem?.message ?? "Waiting for a fit.");
    frame.ready({ key: fit.key, caption: other ? "The panels above are kernel A; those here are kernel B on the same rows, scaled the same way. Shares of the variance compare components of one kernel, not two kernels. The sign of a component is arbitrary." : "" });
    grid.hidden = !other;
    fill(both, other && otherFit && !otherProblem && !wrong(session) ? figures(fit, otherFit) : null, other ? button("End the comparison", () => store.set({ other: null, otherFit: null, otherProblem: null, otherInvalid: null }), { kind: "quiet" }) : null);
  });
  store.on(["rest", "otherFit", "other", "view", "otherProblem", "fitProblem", "invalid", "otherInvalid"], lead.refresh);
  return Object.assign(frame, { onShow: lead.refresh });
}

// Which kernel? The table of a search on rows held out, as bars that can be clicked.

import { button, choice, fill, h } from "../core/dom.js";
import { isStale } from "../core/wire.js";
import { number } from "../draw/scale.js";
import { panel } from "./frame.js";

const BEFORE = "Each kernel is fitted to a part of the rows and judged on the rest. Without labels two questions are asked: do rows that are neighbours have like scores, and do two halves of the rows give the same components? With labels: how well do the scores predict them?";

/** One candidate: what it is, how well it did, and a button that takes it. */
function line(header, each, share, use) {
  const bar = h("span", { class: "filled plain" });
  bar.style.width = `${share}%`;
  const text = `${each.name}, ${each.components} component${each.components > 1 ? "s" : ""}`;
  const told = each.figure === null ? each.words : `${number(each.figure)}${each.error === null ? "" : ` ± ${number(each.error, 2)}`}`;
  return h("tr", { class: each.best ? "winner" : null }, h("th", { scope: "row" }, h("code", {}, each.name), each.best ? h("span", { class: "badge good" }, header.conclusive ? "best" : "kept") : null, h("small", {}, `${each.components} components${each.words && each.figure !== null ? `; ${each.words}` : ""}`)),
    h("td", { class: "bar-cell" }, h("span", { class: "track" }, bar), h("small", {}, told)),
    h("td", {}, each.kernel && button("Use", use, { kind: "tiny", "aria-label": `Use ${text}` })));
}

export function choosePanel(session) {
  const { store } = session;
  const text = h("input", { type: "text", id: "choose-kernels", value: "", placeholder: "the usual kernels and widths", spellcheck: "false", autocomplete: "off" });
  const judge = choice("judged by", [["", "the rows alone"]], "", () => {});
  const stop = button("Stop", () => session.stop(), { kind: "alert", hidden: true });
  const form = h("form", { class: "inline-form", on: { submit: (event) => (event.preventDefault(), fetchIt()) } },
    h("label", { for: "choose-kernels" }, "Kernels, separated by semicolons"), text, judge.root,
    h("button", { type: "submit", class: "button primary" }, "Compare on rows held out"), stop);
  const result = h("div", { class: "choose-result" });
  const frame = panel(session, "Choose a kernel", { body: h("div", {}, form, result), kind: "wide", waits: "Waiting for a table." });
  let asked = 0;

  function reset({ table, recipe }) {
    asked++;
    stop.hidden = true;
    const labelled = table.label && !table.classes.shaded;
    judge.set([["", "the rows alone"], ...(labelled ? [["label", `how well scores predict ${table.label}`]] : [])], "");
    fill(result, h("p", { class: "note" }, BEFORE));
    frame.ready();
    frame.scale = recipe.scale;
  }

  async function fetchIt() {
    const { table, recipe } = store.state, mine = ++asked;
    const kernels = text.value.split(";").map((each) => each.trim()).filter(Boolean);
    fill(result, h("p", { class: "note", role: "status" }, "Comparing; this can take a while."));
    stop.hidden = false;
    try {
      const body = { generation: ++session.generation, table: table.id, recipe, kernels: kernels.length ? kernels : null, components: null, supervised: judge.select.value === "label" };
      const { header } = await session.ask("select", body);
      if (mine === asked) draw(header);
    } catch (error) {
      if (mine === asked) fill(result, h("p", { class: "note" }, isStale(error) ? BEFORE : error.message));
    }
    if (mine === asked) stop.hidden = true;
  }

  function draw(header) {
    const finite = header.candidates.map((each) => each.figure).filter((value) => value !== null), most = Math.max(...finite.map(Math.abs), 1e-12);
    const use = ({ kernel, components }) => () => session.cook({ kernel, components, kind: store.state.recipe.kind === "pca" ? "kpca" : session.kindOf(store.state.recipe) });
    const rows = header.candidates.map((each) => line(header, each, each.figure === null ? 0 : Math.max(1, (100 * Math.abs(each.figure)) / most), use(each)));
    const [first, ...more] = header.reasons, downward = header.sense.startsWith("Shorter") ? -1 : 1;
    const sorted = finite.every((value, i) => !i || downward * (finite[i - 1] - value) >= 0);
    const order = sorted && header.conclusive ? "the best first" : `the one that is ${header.conclusive ? "best" : "kept"} first, the others not in the order of this number`;
    fill(result, h("p", { class: "lede" }, first),
      h("table", { class: "candidates" }, h("caption", {}, `Candidates, ${order}`),
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "kernel"), h("th", { scope: "col" }, header.measure), h("th", { scope: "col" }, "use it"))),
        h("tbody", {}, rows)),
      more.length ? h("details", {}, h("summary", {}, "How they were judged"), h("ul", { class: "sentences" }, more.map((reason) => h("li", {}, reason)))) : null);
    frame.ready({ caption: `${header.sense} All figures are in the table of numbers.`, tables: header.tables });
    session.say(`Compared ${header.candidates.length} candidates. ${header.conclusive ? "Best" : "Kept"}: ${header.candidates[0].name}.`);
  }
  store.on(["table"], (state) => state.table && reset(state));
  store.on(["recipe"], (state) => state.table && state.recipe?.scale !== frame.scale && reset(state)); // other numbers, other distances
  return frame;
}

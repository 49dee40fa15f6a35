// Which kernel? The table of a search on rows held out, as bars that can be clicked.

import { button, fill, h } from "../core/dom.js";
import { isStale } from "../core/wire.js";
import { panel } from "./frame.js";

export function choosePanel(session) {
  const { store } = session;
  const text = h("input", { type: "text", id: "choose-kernels", value: "", placeholder: "the usual kernels and widths", spellcheck: "false", autocomplete: "off" });
  const form = h("form", { class: "inline-form", on: { submit: (event) => (event.preventDefault(), fetchIt()) } },
    h("label", { for: "choose-kernels" }, "Kernels, separated by semicolons"), text,
    h("button", { type: "submit", class: "button primary" }, "Compare on rows held out"), button("Stop", () => session.stop(), { kind: "quiet" }));
  const result = h("div", { class: "choose-result" }, h("p", { class: "note" }, "Each kernel is fitted to a part of the rows, and takes back rows that it has not seen; the smaller their error, the better."));
  const frame = panel("Choose a kernel", { body: h("div", {}, form, result), kind: "wide", waits: "Waiting for a table." });

  async function fetchIt() {
    const { table, recipe } = store.state;
    const kernels = text.value.split(";").map((each) => each.trim()).filter(Boolean);
    fill(result, h("p", { class: "note", role: "status" }, "Comparing; this can take a while."));
    try {
      const { header, arrays } = await session.ask("select", { client: session.client, generation: ++session.generation, table: table.id, recipe, kernels: kernels.length ? kernels : null, components: null });
      if (table === store.state.table) draw(header, arrays.bars);
    } catch (error) {
      if (!isStale(error)) fill(result, h("p", { class: "note" }, error.message));
    }
  }

  function draw(header, bars) {
    const finite = bars.filter(Number.isFinite), most = Math.max(...finite, 1e-12);
    const use = (i) => session.cook({ kernel: header.candidates[i].kernel, components: header.candidates[i].components, kind: store.state.recipe.kind === "pca" ? "kpca" : store.state.recipe.kind });
    const row = (texts, i) => {
      const bar = h("span", { class: "filled plain" });
      bar.style.width = `${Number.isFinite(bars[i]) ? Math.max(1, (100 * bars[i]) / most) : 0}%`;
      const winner = header.candidates[i].kernel === header.winner?.kernel && header.candidates[i].components === header.winner?.components;
      return h("tr", { class: winner ? "winner" : null }, h("td", {}, header.candidates[i].kernel && button(winner ? "Use (best)" : "Use", () => use(i), { kind: "quiet tiny", "aria-label": `Use ${header.candidates[i].kernel} with ${header.candidates[i].components} components` })),
        h("td", { class: "bar-cell" }, h("span", { class: "track" }, bar)), texts.map((cell) => h("td", {}, cell)));
    };
    fill(result, h("ul", { class: "sentences" }, header.reasons.map((reason) => h("li", {}, reason))),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Kernels compared" }, h("table", {}, h("caption", {}, header.reasons.includes(header.caption) ? "Candidates, the best first" : header.caption),
        h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "take"), h("th", { scope: "col" }, header.bars.replaceAll("_", " ")), header.columns.map((name) => h("th", { scope: "col" }, name.replaceAll("_", " "))))),
        h("tbody", {}, header.rows.map(row)))));
    session.say(header.caption);
  }
  store.on(["table"], ({ table }) => table && frame.ready());
  return frame;
}

// Is it a kernel? The verdict in words, the smallest eigenvalue, and where there is one, the witness that can be checked by hand.

import { button, fill, h, table } from "../core/dom.js";
import { number } from "../draw/scale.js";
import { panel } from "./frame.js";

const SHOWN = 8; // rows and columns of the witness's matrix

/** The witness: points, their matrix, a vector c, and cᵀKc < 0. */
function witness(header, { vector, matrix }) {
  const w = vector.length, few = Math.min(w, SHOWN);
  const name = (i) => (header.witness.rows?.length ? `row ${header.witness.rows[i] + 1}` : `point ${i + 1}`);
  const rows = Array.from({ length: few }, (_, i) => [name(i), number(vector[i]), ...Array.from({ length: few }, (_, j) => number(matrix[i * w + j]))]);
  const caption = few < w ? `The witness: the first ${few} of ${w} points, the vector c and the matrix K of kernel values` : "The witness: points, the vector c and the matrix K of kernel values";
  return [
    h("p", { class: "equation" }, "cᵀKc = ", h("strong", {}, number(header.witness.value, 4)), " < 0, which no kernel allows."),
    header.witness.words ? h("p", {}, header.witness.words) : null,
    table({ caption, head: ["point", "c", ...Array.from({ length: few }, (_, j) => name(j))], rows, texts: 1 }),
  ];
}

export function mercerPanel(session) {
  const { store } = session;
  const verdict = h("div", { class: "verdict" }), details = h("div", { class: "details" });
  const frame = panel("Is it a kernel?", { body: h("div", { class: "mercer" }, verdict, details), kind: "wide" });
  let asked = "";

  async function fetchIt() {
    const { table: rows, recipe } = store.state;
    const kernel = recipe.kernel ?? "linear()";
    asked = JSON.stringify([rows.id, kernel, recipe.scale]);
    const mine = asked;
    frame.say("Looking for points whose kernel matrix has a negative eigenvalue.");
    try {
      const { header, arrays } = await session.ask("check", { table: rows.id, kernel, scale: recipe.scale ?? "standard" });
      if (mine !== asked) return;
      const state = header.valid === true ? "yes" : header.valid === false ? "no" : "open";
      const word = { yes: "Yes.", no: "No.", open: "No counterexample found." }[state];
      fill(verdict, h("p", { class: `word ${state}` }, word), h("p", { class: "lede" }, header.verdict));
      const least = header.smallest_eigenvalue;
      fill(details, least === null || least === undefined ? null : h("p", {}, "Smallest eigenvalue of the kernel matrix of these rows: ", h("strong", {}, number(least, 4)), "."),
        header.witness ? witness(header, arrays) : null,
        h("p", { class: "note" }, "A function is a kernel if every matrix of its values at finitely many points has no negative eigenvalue (Mercer, 1909). One vector c with cᵀKc < 0 refutes it for all data."));
      store.set({ witness: header.witness ?? null });
      frame.ready({ caption: header.caption === header.verdict ? "" : header.caption, tables: header.tables ?? [] });
    } catch (error) {
      frame.say(error.message, button("Try again", fetchIt));
    }
  }
  function refresh() {
    const { table: rows, recipe, rest } = store.state;
    if (!rows || !recipe) return frame.say("Waiting for a table.");
    if (recipe.kind === "pca") return frame.say("PCA uses the linear kernel, the inner product of the rows. It is a kernel.");
    if (recipe.model) return frame.say("This is a saved model. Change its kernel to ask about another one.");
    if (frame.visible && rest && asked !== JSON.stringify([rows.id, recipe.kernel ?? "linear()", recipe.scale])) fetchIt();
  }
  store.on(["rest", "table"], refresh);
  return Object.assign(frame, { onShow: refresh, onHide: () => {
    store.set({ witness: null });
    asked = "";
  } });
}

// Is it a kernel? The verdict in words, the smallest eigenvalue, and where there is one, the witness that can be checked by hand.

import { button, fill, h, table } from "../core/dom.js";
import { keyOf } from "../core/session.js";
import { number } from "../draw/scale.js";
import { panel } from "./frame.js";

const SHOWN = 8; // rows and columns of the witness's matrix
const THEOREM = "A function is a kernel if no matrix of its values at finitely many points has a negative eigenvalue (Mercer, 1909). One vector v with vᵀKv < 0 refutes it for all data.";

/** The witness: points, their matrix K, a vector v, and vᵀKv < 0. */
function witness(header, { vector, matrix }) {
  const w = vector.length, few = Math.min(w, SHOWN);
  const name = (i) => (header.witness.rows?.length ? `row ${header.witness.rows[i]}` : `point ${i + 1}`);
  const value = number(header.witness.value, 4);
  if (w === 1) return h("p", { class: "equation" }, `k(x, x) = `, h("strong", {}, value), ` < 0 for ${name(0)}, which is ringed in the data: a squared length can’t be negative.`);
  const rows = Array.from({ length: few }, (_, i) => [name(i), number(vector[i]), ...Array.from({ length: few }, (_, j) => number(matrix[i * w + j]))]);
  const caption = few < w ? `The witness: the first ${few} of ${w} points, the vector v and the matrix K of kernel values` : "The witness: points, the vector v and the matrix K of kernel values";
  return [
    h("p", { class: "equation" }, "vᵀKv = ", h("strong", {}, value), " < 0, which no kernel allows."),
    table({ caption, head: ["point", "v", ...Array.from({ length: few }, (_, j) => name(j))], rows, texts: 1 }),
  ];
}

/** "yes" is for kernels that are valid by how they are built: rows that refute nothing prove nothing. */
function answered({ valid, how }) {
  if (valid === false) return ["no", "No."];
  return valid === true && how !== "valid on these data" ? ["yes", "Yes."] : ["open", "No counterexample found."];
}

export function mercerPanel(session) {
  const { store } = session;
  const verdict = h("div", { class: "verdict" }), details = h("div", { class: "details" });
  const frame = panel(session, "Is it a kernel?", { body: h("div", { class: "mercer" }, verdict, details), kind: "wide" });
  let asked = "";

  /** The kernel in question: that of the recipe, or the one that the fit has chosen. */
  const kernelOf = ({ recipe, rest }) => (recipe.kernel && recipe.kernel !== "auto" ? recipe.kernel : rest?.header.fit.kernel);

  async function fetchIt() {
    const { table: rows, recipe } = store.state, kernel = kernelOf(store.state);
    asked = JSON.stringify([rows.id, kernel, recipe.scale]);
    const mine = asked;
    frame.say("Looking for points whose kernel matrix has a negative eigenvalue.");
    try {
      const { header, arrays } = await session.ask("check", { table: rows.id, kernel, scale: recipe.scale ?? "standard" });
      if (mine === asked) draw(header, arrays, keyOf(recipe));
    } catch (error) {
      if (mine === asked) frame.say(error.message, button("Try again", fetchIt));
    }
  }

  function draw(header, arrays, key) {
    const [state, word] = answered(header), least = header.smallest_eigenvalue;
    fill(verdict, h("p", { class: `word ${state}` }, word), h("p", { class: "lede" }, header.verdict));
    fill(details, least === null || least === undefined ? null : h("p", {}, "Smallest eigenvalue of the kernel matrix of these rows: ", h("strong", {}, number(least, 4)), least < 0 && state !== "no" ? ", which is zero up to rounding." : "."),
      header.witness ? witness(header, arrays) : null);
    store.set({ witness: header.witness ?? null });
    frame.ready({ caption: THEOREM, tables: header.tables ?? [], key });
  }

  function refresh() {
    const { table: rows, recipe, rest, invalid, fitProblem } = store.state;
    const instead = !rows || !recipe ? "Waiting for a table." : invalid ? `${invalid.text || "Nothing"} can’t be used as a kernel, so there is nothing to judge. ${invalid.message}`
      : recipe.kind === "pca" ? "PCA uses the linear kernel, the inner product of the rows. It is a kernel."
        : recipe.model ? "This is a saved model. Change its kernel to ask about another one." : null;
    if (instead) {
      asked = "";
      if (store.state.witness) store.set({ witness: null });
      return frame.say(instead);
    }
    const settled = fitProblem || (rest && rest.key === session.wanted()); // a verdict does not need a fit that succeeds
    if (!settled || !frame.visible || !kernelOf(store.state)) return;
    if (asked !== JSON.stringify([rows.id, kernelOf(store.state), recipe.scale])) fetchIt();
    else frame.holds(session.wanted()); // more components of the same kernel
  }
  store.on(["rest", "table", "invalid", "fitProblem"], refresh);
  return Object.assign(frame, { onShow: refresh, onHide: () => {
    store.set({ witness: null });
    asked = "";
  } });
}

// Everything that can be set about the fit and the colours, and what the fit says of itself.

import { button, choice, fill, fresh, h, objection } from "../core/dom.js";
import { download } from "../core/files.js";
import { markOf } from "../draw/icons.js";
import { count, extent, number, percent } from "../draw/scale.js";
import { kernelField } from "./kernel.js";

/** A text with its numbers at four digits: "RBF(gamma=0.0002902)". */
const short = (text) => text.replace(/\d*\.\d{5,}(e[+-]?\d+)?/g, (found) => String(Number(Number(found).toPrecision(4))));

const section = (title, ...children) => h("section", { class: `group ${title.toLowerCase()}` }, h("h2", {}, title), children);

/** What is fitted: the kind of model, its kernel, components, scaling. */
function modelGroup(session) {
  const { store } = session;
  const kind = choice("Model", [["kpca", "Kernel PCA"], ["pca", "PCA"], ["detector", "Detector"]], "kpca", (value) => session.become(value));
  const scale = choice("Scaling", [["standard", "mean 0, variance 1"], ["none", "as in the file"]], "standard", (value) => session.cook({ scale: value }));
  const id = fresh("components");
  const components = h("input", { type: "number", id, min: 0, step: "any", class: "twin", title: "A number, or a share of the variance such as 0.95; leave it empty for the default", on: { input: () => wanted(false), change: () => wanted(true) } });
  const wrong = objection(components);
  /** What can be used, nothing included, is used at once; what can't is refused when it is whole: 0 may become 0.95. */
  function wanted(whole) {
    const k = components.valueAsNumber, empty = !components.value && !components.validity.badInput;
    const fine = empty || (k > 0 && (k < 1 || Number.isInteger(k)));
    if (fine || whole) wrong.say(fine ? "" : `components must be a whole number from 1 on, or a share of the variance below 1; got ${components.value || "no number"}.`);
    if (fine) session.cook({ components: empty ? null : k });
  }
  const field = kernelField(session, { label: "Kernel", value: () => named(store.state), change: (kernel) => session.cook({ kernel }), wrong: (invalid) => store.set({ invalid }) });
  const saved = h("p", { class: "note", hidden: true }), width = h("ul", { class: "closeness" });
  store.on(["recipe"], ({ recipe }) => {
    if (!recipe) return;
    kind.select.value = session.kindOf(recipe);
    scale.select.value = recipe.scale ?? "standard";
    if (document.activeElement !== components) {
      components.value = typeof recipe.components === "number" ? recipe.components : "";
      wrong.say("");
    }
    field.root.hidden = recipe.kind === "pca" || Boolean(recipe.model);
    saved.hidden = !recipe.model;
    const model = session.info.models.find((each) => each.id === recipe.model);
    saved.textContent = `${model ? `${model.name}: ${short(model.words)}. ` : ""}This model is shown as it was saved; changing anything fits anew.`;
  });
  store.on(["fit"], ({ fit }) => {
    if (fit) components.placeholder = String(fit.header.fit.components);
    const { words = [], level } = fit?.header.fit.closeness ?? {};
    fill(width, words.length ? h("li", { class: level }, words.join(" ")) : null);
  });
  store.on(["invalid"], ({ invalid }) => (width.hidden = Boolean(invalid)));
  return section("Model", kind.root, field.root, width, saved, h("span", { class: "choice" }, h("label", { for: id }, "Components"), components), wrong.root, scale.root);
}

/** The kernel of the recipe, or the one that the fit has chosen where the recipe leaves it open. */
function named({ recipe, fit }) {
  if (recipe?.kind === "pca" || recipe?.model) return null;
  return recipe?.kernel && recipe.kernel !== "auto" ? recipe.kernel : fit ? short(fit.header.fit.kernel) : null;
}

/** Colours and their legend. */
function colourGroup(session) {
  const { store } = session;
  const pick = choice("Colour by", [], "", (value) => session.look({ color: value === "" ? null : value.startsWith("{") ? JSON.parse(value) : value }));
  const legend = h("ul", { class: "legend", "aria-label": "Classes" });
  const key = (color) => (color === null ? "" : typeof color === "string" ? color : JSON.stringify(color));
  store.on(["table", "view", "recipe", "fit"], ({ table, view, recipe, fit }) => {
    if (!table || !view) return;
    const pairs = [["", "nothing"]];
    if (table.label) pairs.push(["label", table.label]);
    if (session.kindOf(recipe) === "detector") pairs.push(["alarm", "alarm"]);
    table.features.slice(0, 60).forEach((name, i) => pairs.push([JSON.stringify({ column: i }), name]));
    for (let i = 0; i < Math.min(fit?.header.fit.components ?? 0, 6); i++) pairs.push([JSON.stringify({ component: i }), `score on component ${i + 1}`]);
    pick.set(pairs, key(view.color));
  });
  store.on(["rows"], ({ rows }) => {
    const classes = rows?.header.classes;
    if (!classes) return fill(legend);
    const codes = rows.arrays.codes, numbers = rows.arrays.rows;
    const rowsOf = (code) => Array.from(codes ?? []).flatMap((found, i) => (found === code ? [numbers ? numbers[i] : i] : []));
    const item = (name, i) => h("li", {}, h("button", { type: "button", class: "chip", title: "Select these rows", on: { click: (event) => session.select(rowsOf(i), event.shiftKey ? "add" : "replace") } },
      markOf(i), h("span", {}, name), h("small", {}, count(classes.counts[i]))));
    const ends = rows.arrays.shade ? extent(rows.arrays.shade, 0, 1, 0).map((x) => number(x)) : [];
    const bar = classes.shaded ? h("li", { class: "ramp-item" }, h("span", {}, ends[0]), h("span", { class: "ramp", "aria-hidden": "true" }), h("span", {}, ends[1])) : null;
    const remark = !classes.shaded ? classes.remark : classes.shaded === "label" ? "" : `${classes.shaded}: the numbers are places in that order.`;
    fill(legend, classes.shaded ? bar : classes.names.length > 1 || classes.names[0] ? classes.names.map(item) : null, remark ? h("li", { class: "note" }, remark) : null);
  });
  return section("Colour", pick.root, legend);
}

const HINT = "Draw around marks to select rows; Shift adds, Alt takes away. Arrow keys move between marks, Enter selects. Rows are counted from 0, as in Python.";

/** The rows that are selected: the same in all panels. */
function selectionGroup(session) {
  const { store } = session;
  const words = h("p", { class: "note" });
  const clear = button("Clear", () => session.select([]), { kind: "quiet", disabled: true });
  const save = button("Save these rows", async () => {
    const { table, selection, recipe } = store.state;
    const file = await session.ask("save", { what: "selection", table: table.id, recipe, rows: selection.sorted(), format: "csv" }).catch(session.complain);
    if (file?.blob) download(file.name, file.blob);
  }, { disabled: true });
  const show = ({ selection, table }) => {
    const some = selection.size > 0;
    clear.disabled = save.disabled = !some;
    words.textContent = some ? `${count(selection.size)} of ${count(table.n)} rows are selected.` : HINT;
  };
  store.on(["selection", "table"], (state) => {
    show(state);
    if (state.selection.size) session.say(words.textContent);
  });
  words.textContent = HINT;
  return section("Selection", words, h("div", { class: "row" }, clear, save));
}

/** Words with what stands between backticks as code. */
const coded = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

/** A finding or a symptom, with a button where one parameter would help. */
function finding(session, { message, words, level = "warning", remedy }) {
  const names = { n_components: "components", components: "components", kernel: "kernel" };
  const parameter = remedy && typeof remedy === "object" ? names[remedy.parameter] : null;
  const act = parameter ? button(`Set ${parameter} to ${remedy.value}`, () => session.cook({ [parameter]: remedy.value }), { kind: "tiny" }) : null;
  return h("li", { class: level }, h("span", {}, coded(message ?? words)), typeof remedy === "string" ? h("span", { class: "remedy" }, ` ${remedy}`) : null, act);
}

/** An approximation can give way to the exact fit; what that takes is said first. */
function exactOffer(session) {
  const root = h("li", { class: "note" });
  async function ask() {
    const { table, recipe } = session.state;
    const found = await session.ask("plan", { table: table.id, recipe }).catch((error) => ({ cost: error.message }));
    fill(root, h("span", {}, found.cost), found.fits ? button("Fit exactly", () => session.exactly(), { kind: "tiny" }) : null);
  }
  return fill(root, button("What would an exact fit take?", ask, { kind: "tiny" }));
}

/** What the fit says of itself: how it was done, how far it can be trusted, what is wrong. */
function evidenceGroup(session) {
  const { store } = session;
  let root = null;
  const facts = h("p", { class: "facts" }), found = h("ul", { class: "findings" }), evidence = h("ul", { class: "sentences" }), plan = h("pre", { tabindex: "0", "aria-label": "Plan of the fit" });
  store.on(["invalid"], ({ invalid }) => root.classList.toggle("outdated", Boolean(invalid)));
  store.on(["fit", "fitProblem"], ({ fit, fitProblem }) => {
    if (!fit) {
      facts.textContent = fitProblem ? fitProblem.message : "Fitting.";
      plan.textContent = "";
      return void [found, evidence].forEach((each) => fill(each));
    }
    const { fit: info, findings = [], timings = {} } = fit.header;
    const kept = info.variance_kept ?? null;
    facts.textContent = `${info.components} component${info.components === 1 ? "" : "s"}${kept === null ? "" : ` hold${info.components === 1 ? "s" : ""} ${percent(kept)} of the variance`}. ${short(info.kernel)}.`;
    fill(found, (info.symptoms ?? []).map((each) => finding(session, each)), findings.filter((each) => each.level !== "info").map((each) => finding(session, each)),
      info.approximate && !store.state.recipe.approximation && !store.state.recipe.model ? exactOffer(session) : null, fit.header.stopped ? h("li", { class: "note" }, button("Fit again", () => session.push("rest"), { kind: "tiny" })) : null);
    fill(evidence, (info.evidence ?? []).map((text) => h("li", {}, text)), timings.fit === undefined ? null : h("li", {}, `The fit took ${Math.round(timings.fit)} ms.`));
    plan.textContent = info.plan ?? "";
  });
  return (root = section("Fit", facts, found, h("details", {}, h("summary", {}, "Evidence and plan"), evidence, plan)));
}

export const sidebar = (session) => h("aside", { class: "sidebar", "aria-label": "Model, colours and selection" }, modelGroup(session), evidenceGroup(session), colourGroup(session), selectionGroup(session));

// The frame of every panel: a title, its controls, the picture, a sentence, the same as a table, and what to say instead of nothing.

import { button, fill, fresh, h, table } from "../core/dom.js";
import { icon } from "../draw/icons.js";
import { savePicture } from "../draw/picture.js";

const LATE = 500; // ms

/** The kernel of a recipe in a few words. */
const called = (key) => {
  const recipe = JSON.parse(key);
  return recipe.kernel ?? (recipe.model ? "the saved model" : recipe.kind === "pca" ? "PCA" : "its own kernel");
};

/** panel(session, "Scores", {controls, plot}) → its element and what can be said in it; `slot` is the fit that it shows. */
export function panel(session, title, { controls = [], plot = null, body = null, waits = "Waiting for the first fit.", kind = "", slot = "a" } = {}) {
  const id = fresh("panel");
  const message = h("div", { class: "message" }, h("p", {}, waits));
  const caption = h("figcaption", { id: `${id}-caption` });
  const tables = h("div", { class: "tables", hidden: true });
  const inside = h("div", { class: "inside" }, plot ? plot.root : body);
  const badge = h("span", { class: "badge", hidden: true }), tag = h("span", { class: "tag" });
  let listed = [], of = null, waited = 0;
  plot?.root.setAttribute("aria-describedby", caption.id);
  const list = () => fill(tables, listed.length ? listed.map(table) : h("p", {}, "This picture has no numbers beside those in its sentence."));
  const numbers = button("Show the numbers as a table", () => {
    tables.hidden = !tables.hidden;
    if (!tables.hidden) list();
    numbers.setAttribute("aria-expanded", String(!tables.hidden));
  }, { icon: icon("table"), kind: "quiet", "aria-expanded": "false" });
  const pictures = plot && h("span", { class: "pair" }, ["png", "svg"].map((form) =>
    button(`Save ${title.toLowerCase()} as ${form.toUpperCase()}`, () => savePicture(plot, title, form), { icon: form.toUpperCase(), kind: "quiet tiny" })));
  const root = h("section", { class: `panel ${kind}`.trim(), "aria-labelledby": id },
    h("header", {}, h("h2", { id }, title), badge, tag, h("div", { class: "tools" }, pictures, numbers), h("div", { class: "controls" }, controls)),
    h("figure", {}, h("div", { class: "stage" }, inside, message), caption, tables));
  root.classList.add("waiting");

  /** A picture of another kernel than the one in the field says whose it is. */
  function compared() {
    const wrong = of !== null && session.wrong(slot), late = of !== null && of !== session.wanted(slot);
    root.classList.toggle("outdated", Boolean(wrong));
    root.classList.toggle("stale", late);
    if (wrong) tag.textContent = `still ${called(of)}`;
    else if (!late) tag.textContent = "";
    clearTimeout(waited); // a drag is answered before anyone could read whose picture it was
    if (late) waited = setTimeout(() => (tag.textContent = of === null ? "" : `still ${called(of)}`), LATE);
  }
  session.store.on(["recipe", "other", "invalid", "otherInvalid"], compared);
  return {
    root, caption, stage: inside,
    /** Words in place of the picture, with a button where something can be done. */
    say(words, action = null) {
      of = null;
      compared();
      root.classList.add("waiting");
      badge.hidden = true;
      listed = [];
      fill(message, h("p", {}, words), action);
    },
    /** The picture, with its sentence and its numbers; `key` names the recipe that it shows, where it shows one. */
    ready({ caption: words = "", tables: found = [], key = null } = {}) {
      of = key;
      compared();
      root.classList.remove("waiting");
      if (caption.textContent !== words) caption.textContent = words;
      listed = found;
      if (!tables.hidden) list();
    },
    /** What is shown is also true of the recipe of this key. */
    holds(key) {
      if (of === null) return;
      of = key;
      compared();
    },
    /** A word beside the title; what follows its colon is there for the pointer. */
    badge(words, kind = "") {
      badge.className = `badge ${kind}`.trim();
      badge.hidden = !words;
      badge.textContent = (words ?? "").split(":")[0];
      badge.title = words ?? "";
    },
  };
}

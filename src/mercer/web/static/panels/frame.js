// The frame of every panel: a title, its controls, the picture, a sentence, the same as a table, and what to say instead of nothing.

import { button, fill, fresh, h, table } from "../core/dom.js";
import { icon } from "../draw/icons.js";
import { savePicture } from "../draw/picture.js";

/** panel("Scores", {controls, plot}) → its element and what can be said in it. */
export function panel(title, { controls = [], plot = null, body = null, waits = "Waiting for the first fit.", kind = "" } = {}) {
  const id = fresh("panel");
  const message = h("div", { class: "message" }, h("p", {}, waits));
  const caption = h("figcaption", { id: `${id}-caption` });
  const tables = h("div", { class: "tables", hidden: true });
  const inside = h("div", { class: "inside" }, plot ? plot.root : body);
  const badge = h("span", { class: "badge", hidden: true });
  plot?.root.setAttribute("aria-describedby", caption.id);
  const numbers = button("Show the numbers as a table", () => {
    tables.hidden = !tables.hidden;
    numbers.setAttribute("aria-expanded", String(!tables.hidden));
  }, { icon: icon("table"), kind: "quiet", "aria-expanded": "false" });
  const pictures = plot && h("span", { class: "pair" }, ["png", "svg"].map((form) =>
    button(`Save ${title.toLowerCase()} as ${form.toUpperCase()}`, () => savePicture(plot, title, form), { icon: form.toUpperCase(), kind: "quiet tiny" })));
  const root = h("section", { class: `panel ${kind}`.trim(), "aria-labelledby": id },
    h("header", {}, h("h2", { id }, title), badge, h("div", { class: "tools" }, pictures, numbers), h("div", { class: "controls" }, controls)),
    h("figure", {}, h("div", { class: "stage" }, inside, message), caption, tables));
  root.classList.add("waiting");
  return {
    root, caption, stage: inside,
    /** Words in place of the picture, with a button where something can be done. */
    say(words, action = null) {
      root.classList.add("waiting");
      fill(message, h("p", {}, words), action);
    },
    /** The picture, with its sentence and its numbers. */
    ready({ caption: words = "", tables: found = [] } = {}) {
      root.classList.remove("waiting", "stale");
      caption.textContent = words;
      fill(tables, found.length ? found.map(table) : h("p", {}, "This picture has no numbers beside those in its sentence."));
    },
    /** Still the picture of an earlier request. */
    stale: (is) => root.classList.toggle("stale", is),
    /** A word beside the title; what follows its colon is there for the pointer. */
    badge(words) {
      badge.hidden = !words;
      badge.textContent = (words ?? "").split(":")[0];
      badge.title = words ?? "";
    },
  };
}

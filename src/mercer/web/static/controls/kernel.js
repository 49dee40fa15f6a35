// The kernel as an expression: completed while it is typed, its formula beside it, its widths as sliders.

import { fill, fresh, h } from "../core/dom.js";
import { newest } from "../core/lane.js";
import { formula } from "./formula.js";
import { widthSlider } from "./width.js";

/** The word that ends at the caret. */
const wordAt = (text, caret) => /[A-Za-z_0-9]*$/.exec(text.slice(0, caret))[0];

/** A list of names under the field, walked with arrow keys. */
function completion(input, kernels, take) {
  const id = fresh("names");
  const list = h("ul", { id, role: "listbox", class: "names", hidden: true, "aria-label": "Kernels" });
  let items = [], at = -1;
  Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-controls": id, "aria-expanded": "false" }).forEach(([k, v]) => input.setAttribute(k, v));

  function show(found) {
    items = found;
    at = -1;
    list.hidden = !items.length;
    input.setAttribute("aria-expanded", String(!list.hidden));
    input.removeAttribute("aria-activedescendant");
    fill(list, items.map((item, i) => h("li", { id: `${id}-${i}`, role: "option", "aria-selected": "false", on: { pointerdown: (event) => (event.preventDefault(), choose(i)) } },
      h("b", {}, item.name), h("span", {}, item.formula ?? ""), h("small", {}, item.words ?? ""))));
  }
  function move(by) {
    at = (at + by + items.length) % items.length;
    [...list.children].forEach((child, i) => child.setAttribute("aria-selected", String(i === at)));
    list.children[at].scrollIntoView({ block: "nearest" });
    input.setAttribute("aria-activedescendant", `${id}-${at}`);
  }
  function choose(i) {
    const caret = input.selectionStart, word = wordAt(input.value, caret);
    const text = input.value.slice(0, caret - word.length) + items[i].call + input.value.slice(caret).replace(/^[A-Za-z_0-9]*(\(\))?/, "");
    show([]);
    take(text);
  }
  input.addEventListener("input", () => {
    const word = wordAt(input.value, input.selectionStart).toLowerCase();
    const inside = /=\s*[\w.'"]*$/.test(input.value.slice(0, input.selectionStart)); // a value, not a name
    show(word && !inside && !/^\d/.test(word) ? kernels().filter(({ name }) => name.startsWith(word) && name !== word) : []);
  });
  input.addEventListener("keydown", (event) => {
    if (list.hidden && event.key === "ArrowDown") return event.preventDefault(), show(kernels());
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") event.preventDefault(), move(event.key === "ArrowDown" ? 1 : -1);
    else if ((event.key === "Enter" || event.key === "Tab") && (at >= 0 || event.key === "Tab")) event.preventDefault(), choose(Math.max(at, 0));
    else if (event.key === "Escape") show([]);
  });
  input.addEventListener("blur", () => show([]));
  return list;
}

/** The text with the wrong part marked. */
const pointedAt = (text, at) => (at ? h("code", { class: "pointed" }, text.slice(0, at[0]), h("mark", {}, text.slice(at[0], Math.max(at[1], at[0] + 1)) || "␣"), text.slice(at[1])) : null);

/** kernelField(session, {label, value, change}): `change(text)` gets every text that is a kernel. */
export function kernelField(session, { label, value, change }) {
  const id = fresh("kernel");
  const input = h("input", { type: "text", id, class: "expression", spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-describedby": `${id}-says` });
  const shown = h("div", { class: "formula" }), sliders = h("div", { class: "widths" }), says = h("div", { id: `${id}-says`, class: "says", "aria-live": "polite" });
  let widths = [];

  const lane = newest(async ({ text, apply }, signal) => {
    const { table, recipe } = session.state;
    try {
      const found = await session.ask("kernel", { text, table: table.id, scale: recipe.scale ?? "standard" }, { signal });
      input.removeAttribute("aria-invalid");
      fill(shown, formula(found.formula));
      fill(says, found.is_kernel ? h("span", { class: "proof" }, `A kernel: ${found.is_kernel.replace(/^proved: ?/, "")}`) : found.words ? h("span", {}, found.words) : null);
      place(found.widths);
      if (apply) change(text);
    } catch (error) {
      if (signal.aborted) throw error;
      input.setAttribute("aria-invalid", "true");
      fill(says, h("span", { class: "wrong" }, error.message.split("\n")[0]), pointedAt(text, error.at));
    }
  });

  function place(found) {
    const keep = found.length === widths.length && found.every((width, i) => widths[i].same(width));
    if (keep) return found.forEach((width, i) => widths[i].set(width));
    widths = found.map((width) => widthSlider(width, slide));
    fill(sliders, widths.map((each) => each.root));
  }
  /** A slider moved: fit at once, look at the other widths afterwards. */
  function slide(text) {
    input.value = text;
    change(text);
    lane.push({ text, apply: false });
  }
  const take = (text) => {
    input.value = text;
    lane.push({ text, apply: true });
  };
  input.addEventListener("input", () => input.value.trim() && lane.push({ text: input.value, apply: true }));
  const list = completion(input, () => session.info.kernels, take);
  session.store.on(["recipe", "table", "other", "rest"], () => {
    const { table, recipe } = session.state;
    const text = value();
    if (!table || !recipe || !text) return;
    const key = JSON.stringify([table.id, recipe.scale, text]);
    if (key === session[id]) return;
    session[id] = key;
    if (document.activeElement !== input && input.value !== text) input.value = text;
    lane.push({ text, apply: false });
  });
  return { root: h("div", { class: "kernel-field" }, h("label", { for: id }, label), h("div", { class: "combo" }, input, list), shown, says, sliders), input };
}

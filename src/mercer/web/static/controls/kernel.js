// The kernel as an expression: completed while it is typed, its formula beside it, its widths as sliders.

import { fill, fresh, h } from "../core/dom.js";
import { newest } from "../core/lane.js";
import { isStale } from "../core/wire.js";
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

const PAUSE = 400; // ms: a text that is still being typed is not called wrong
const REST = 150; // ms after the last move of a slider

/** kernelField(session, {label, value, change, wrong, slot}): `change(text)` gets every text that is a kernel, `wrong` those that stay none. */
export function kernelField(session, { label, value, change, wrong, slot = "a" }) {
  const id = fresh("kernel");
  const input = h("input", { type: "text", id, class: "expression", spellcheck: "false", autocomplete: "off", autocapitalize: "off", "aria-describedby": `${id}-says` });
  const shown = h("div", { class: "formula" }), sliders = h("div", { class: "widths" }), says = h("div", { id: `${id}-says`, class: "says", "aria-live": "polite" });
  const root = h("div", { class: "kernel-field" }, h("label", { for: id }, label));
  let widths = [], patience = 0, sliding = 0, proof = null;

  const lane = newest(async ({ text, apply }, signal) => {
    const { table, recipe } = session.state;
    const found = text.trim() ? await session.ask("kernel", { text, table: table.id, scale: recipe.scale ?? "standard" }, { signal }) : { wrong: { message: "Type a kernel, such as rbf(gamma=1)." } };
    if (text !== input.value && document.activeElement === input) return; // a newer text is on its way
    if (found.wrong) return refuse(text, found.wrong);
    fine();
    write(found.formula);
    proof = found.is_kernel?.replace(/^proved: ?/, "") ?? "";
    judge();
    place(found.widths);
    if (apply) change(text);
  }, { failed: (error) => isStale(error) || refuse(input.value, error) });

  /** Whether it is a kernel, as far as its text and the fit tell. */
  function judge() {
    const fit = session.state[slot === "a" ? "fit" : "otherFit"];
    const refuted = fit?.key === session.wanted(slot) && fit.header.panels.spectrum.shares === false;
    const words = proof ? `A kernel: ${proof}` : `${refuted ? "Not a kernel on these rows" : "Nothing proves that this is a kernel"}: see “Is it a kernel?”`;
    if (says.textContent !== words) fill(says, h("span", { class: proof ? "proof" : refuted ? "wrong" : "" }, words));
  }

  /** The formula, and whose columns its distances are of. */
  function write(text) {
    const { recipe } = session.state, scaled = recipe?.scale !== "none" || session.kindOf(recipe) === "detector";
    fill(shown, formula(text), scaled ? h("small", { class: "note" }, " of scaled columns") : null);
  }

  /** A text that is not a kernel: its formula and its sliders would be those of another one. */
  function refuse(text, { message, at = null }) {
    const words = message.split("\n")[0];
    input.setAttribute("aria-invalid", "true");
    root.classList.add("refused");
    fill(shown);
    fill(says, h("span", { class: "wrong" }, words), pointedAt(text, at));
    clearTimeout(patience);
    patience = setTimeout(() => wrong({ text, message: words }), PAUSE);
  }
  function fine() {
    clearTimeout(patience);
    input.removeAttribute("aria-invalid");
    root.classList.remove("refused");
    wrong(null);
  }

  function place(found) {
    const keep = found.length === widths.length && found.every((width, i) => widths[i].same(width));
    if (keep) return found.forEach((width, i) => widths[i].set(width));
    widths = found.map((width) => widthSlider(width, slide, (held) => session.hold(held)));
    fill(sliders, widths.map((each) => each.root));
  }
  /** A slider moved: fit at once, look at the other widths when it rests. The fit brings the formula. */
  function slide(text) {
    input.value = text;
    clearTimeout(sliding);
    sliding = setTimeout(() => ([sliding, session[id]] = [0, ""], lane.push({ text, apply: false })), REST);
    fine();
    change(text);
  }
  const take = (text) => {
    input.value = text;
    lane.push({ text, apply: true });
  };
  input.addEventListener("input", () => lane.push({ text: input.value, apply: true }));
  session.store.on(["fit"], ({ fit }) => sliding && fit?.header.fit.formula && write(fit.header.fit.formula));
  session.store.on(["fit", "otherFit"], () => proof !== null && !root.classList.contains("refused") && judge());
  const list = completion(input, () => session.info.kernels, take);
  session.store.on(["recipe", "table", "other", "rest"], () => {
    const { table, recipe } = session.state;
    const text = value();
    if (!table || !recipe || !text || sliding) return;
    const key = JSON.stringify([table.id, recipe.scale, text]);
    if (key === session[id]) return;
    session[id] = key;
    if (document.activeElement !== input && input.value !== text) input.value = text;
    lane.push({ text, apply: false });
  });
  session.store.on(["restored"], () => value() && take(value()));
  root.append(h("div", { class: "combo" }, input, list), shown, says, sliders);
  return { root, input };
}

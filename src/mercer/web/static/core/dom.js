// Elements from values. Text is always text: nothing here parses markup, so a label can't become an element.

const SPACES = { svg: "http://www.w3.org/2000/svg", math: "http://www.w3.org/1998/Math/MathML" };

function build(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (name === "value" || name === "checked" || name === "disabled" || name === "hidden" || name === "selected") element[name] = value;
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** h("p", {class: "note", on: {click}}, "text", child): an HTML element. */
export const h = (tag, props, ...children) => build(document.createElement(tag), props, children);

/** The same for SVG. */
export const s = (tag, props, ...children) => build(document.createElementNS(SPACES.svg, tag), props, children);

/** The same for MathML. */
export const m = (tag, props, ...children) => build(document.createElementNS(SPACES.math, tag), props, children);

let made = 0;
/** An id that no other element of the page has. */
export const fresh = (stem) => `${stem}-${++made}`;

/** Replace the children of an element. */
export const fill = (element, ...children) => {
  element.replaceChildren(...children.flat(3).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
};

/** A <select> of [value, text] pairs with a label; `act` gets the value as a text. */
export function choice(label, pairs, value, act, { hideLabel = false } = {}) {
  const id = fresh("choice");
  const select = h("select", { id, on: { change: () => act(select.value) } });
  let listed = "";
  const set = (options, chosen) => {
    const now = options.join("\n"); // rebuilt only where it has changed: a drag sets it with every frame
    if (now !== listed) fill(select, options.map(([key, text]) => h("option", { value: String(key) }, text)));
    listed = now;
    if (select.value !== String(chosen)) select.value = String(chosen);
  };
  set(pairs, value);
  const root = h("span", { class: "choice" }, h("label", { for: id, class: hideLabel ? "unseen" : null }, label), select);
  return { root, select, set };
}

/** Words beside a field about what it holds and can't be used: `say(words)`, and `say("")` where it can. */
export function objection(input) {
  const id = fresh("objection"), root = h("p", { id, class: "objection", role: "alert", hidden: true });
  const say = (words) => {
    input.setAttribute("aria-invalid", String(Boolean(words)));
    if (words) input.setAttribute("aria-describedby", id);
    else input.removeAttribute("aria-describedby");
    root.textContent = words;
    root.hidden = !words;
  };
  return { root, say };
}

/** A button with a text, or with an icon and a name for those who don't see it. */
export const button = (text, act, { icon = null, kind = "", title = null, ...rest } = {}) =>
  h("button", { type: "button", class: `button ${kind}`.trim(), title: title ?? (icon ? text : null), "aria-label": icon ? text : null, on: { click: act }, ...rest }, icon ?? text);

/** A data table as the server writes it: {caption, head, rows, texts}. */
export function table({ caption, head, rows, texts = 1 }) {
  const cell = (tag, text, i, scope) => h(tag, { class: i >= texts ? "number" : null, scope }, text);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {}, h("caption", {}, caption),
      h("thead", {}, h("tr", {}, head.map((text, i) => cell("th", text, i, "col")))),
      h("tbody", {}, rows.map((row) => h("tr", {}, row.map((text, i) => cell(i ? "td" : "th", text, i, i ? null : "row")))))));
}

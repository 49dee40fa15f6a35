// Importance: how much each column moves each component, as a table of squares whose area is the share.

import { button, fill, h } from "../core/dom.js";
import { percent } from "../draw/scale.js";
import { panel } from "./frame.js";
import { imageBox, paintImage } from "./image.js";

/** "goes both ways with y" in words that say how. */
const spoken = (text) => {
  const plain = text.replace(/goes both ways with ([^;]*)/, (_, names) => `goes up and down as ${names} ${names.includes(",") ? "grow" : "grows"}`);
  return plain[0].toUpperCase() + plain.slice(1);
};

const MOST = 16; // columns of the table, of those that matter most

function grid({ names, shares, d, k }) {
  const weight = (j) => Math.max(...Array.from({ length: k }, (_, i) => shares[j * k + i]));
  const order = Array.from({ length: d }, (_, j) => j).sort((a, b) => weight(b) - weight(a)).slice(0, MOST);
  const cell = (share) => {
    const square = h("span", { class: "square", "aria-hidden": "true" });
    const side = Math.sqrt(Math.max(0, share));
    square.style.width = square.style.height = `${(1.5 * side).toFixed(3)}rem`;
    return h("td", {}, h("span", { class: "square-box" }, square), h("span", { class: "square-text" }, percent(share, 0)));
  };
  const shown = Math.min(k, 8);
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "Importance of columns" },
    h("table", { class: "importance" },
      h("caption", {}, `Share of each column in a component${order.length < d ? `; the ${order.length} largest of ${d} columns` : ""}`),
      h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "column"), Array.from({ length: shown }, (_, i) => h("th", { scope: "col" }, String(i + 1))))),
      h("tbody", {}, order.map((j) => h("tr", {}, h("th", { scope: "row" }, names[j]), Array.from({ length: shown }, (_, i) => cell(shares[j * k + i])))))));
}

/** Where in a picture each component looks: bright pixels move it. */
function maps(shares, shape, k) {
  const found = Array.from({ length: Math.min(k, 12) }, (_, i) => {
    const one = Float32Array.from({ length: shape[0] * shape[1] }, (_, j) => shares[j * k + i]);
    const box = imageBox(`component ${i + 1}`);
    paintImage(box.canvas, one, shape, 0, Math.max(...one));
    return box.root;
  });
  return h("div", { class: "sheet-of-images" }, found);
}

export function importancePanel(session) {
  const { store } = session;
  const body = h("div", { class: "importance-body" });
  const frame = panel(session, "What components mean", { body, waits: "Not asked for yet.", kind: "wide" });
  let asked = null;

  let running = null;
  store.on(["recipe", "table"], () => running?.abort());

  async function fetchIt() {
    const { table, recipe, rest } = store.state;
    asked = rest;
    running?.abort();
    running = new AbortController();
    const { signal } = running;
    frame.say("Differentiating components by every column.");
    try {
      const { header, arrays } = await session.ask("importance", { table: table.id, recipe }, { signal });
      if (asked !== rest) return;
      const [d, k] = arrays.shares.shape;
      const drawn = table.image_shape ? maps(arrays.shares, table.image_shape, k) : grid({ names: header.names, shares: arrays.shares, d, k });
      fill(body, table.image_shape ? null : h("ul", { class: "sentences" }, header.sentences.map((text) => h("li", {}, spoken(text)))), drawn);
      frame.ready({ ...header, caption: `${table.image_shape ? "Bright pixels move a component most. " : ""}${header.caption}`, key: rest.key });
    } catch (error) {
      if (!signal.aborted) frame.say(error.message, button("Try again", fetchIt));
    }
  }
  const refresh = () => frame.visible && store.state.rest && asked !== store.state.rest && fetchIt();
  store.on(["rest", "fitProblem"], ({ rest, fitProblem }) => {
    if (fitProblem) asked = null;
    if (!rest) frame.say(fitProblem?.message ?? "Waiting for a fit.");
    refresh();
  });
  return Object.assign(frame, { onShow: refresh });
}

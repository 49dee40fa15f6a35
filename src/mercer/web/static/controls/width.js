// A width on a logarithmic slider, the median rule marked on it, with the number beside it for those who know theirs.

import { fresh, h, objection } from "../core/dom.js";
import { number } from "../draw/scale.js";

const STEP = 0.02; // decades a key press: a factor of 1.05

/** A number short enough for an expression and exact enough to come back as the same slider place. */
export const brief = (x) => String(Number(x.toPrecision(4)));

/** widthSlider(width, change, hold): `change(text of the number)` while the finger is down, which `hold(true)` says. */
export function widthSlider(width, change, hold) {
  const id = fresh("width"), { to, from } = width.log === false ? { to: (x) => x, from: (x) => x } : { to: Math.log10, from: (x) => 10 ** x };
  const low = to(width.low), high = to(width.high), step = width.whole ? 1 : width.log === false ? (high - low) / 200 : STEP;
  const range = h("input", { type: "range", id, min: low, max: high, step: width.whole ? 1 : step / 2 });
  const twin = h("input", { type: "text", inputmode: "decimal", class: "twin", "aria-label": `${width.name} of ${width.of} as a number`, autocomplete: "off" });
  const wrong = objection(twin);
  const tick = h("button", { type: "button", class: "median", title: "Set to the median rule" }, "median");
  const root = h("div", { class: "width" },
    h("div", { class: "width-head" }, h("label", { for: id }, h("b", {}, symbol(width.name)), ` ${width.name} of ${width.of}`), twin), wrong.root,
    h("div", { class: "log-track" }, range, tick), h("div", { class: "ends" }, h("span", {}, meaning(width)[0]), h("span", {}, meaning(width)[1])));
  let held = width;

  function show(value) {
    range.value = to(value);
    range.setAttribute("aria-valuetext", `${width.name} ${number(value, 3)}`);
    if (document.activeElement === twin) return;
    twin.value = brief(value);
    wrong.say("");
  }
  function set(next) {
    held = next;
    tick.hidden = !next.median;
    if (next.median) tick.style.left = `${(100 * (to(next.median) - low)) / (high - low)}%`;
    if (document.activeElement !== range || !range.matches(":active")) show(next.value);
  }
  const give = (value) => {
    show(value);
    change(held.before + brief(value) + held.after);
  };
  range.addEventListener("pointerdown", () => hold(true));
  for (const end of ["pointerup", "pointercancel", "lostpointercapture", "change"]) range.addEventListener(end, () => hold(false));
  range.addEventListener("input", () => give(from(Number(range.value))));
  range.addEventListener("keydown", (event) => {
    const far = width.whole ? 1 : 15 * step;
    const by = { ArrowUp: step, ArrowRight: step, ArrowDown: -step, ArrowLeft: -step, PageUp: far, PageDown: -far }[event.key];
    if (!by) return;
    event.preventDefault();
    give(from(Math.min(high, Math.max(low, Number(range.value) + by))));
  });
  twin.addEventListener("change", () => {
    const value = Number(twin.value.replace(",", ".").replace("−", "-"));
    const fine = twin.value.trim() && Number.isFinite(value) && (value > 0 || width.log === false);
    wrong.say(fine ? "" : `${width.name} must be a number${width.log === false ? "" : " above 0"}; got ${twin.value.trim() || "nothing"}.`);
    if (fine) give(value);
  });
  tick.addEventListener("click", () => held.median && give(held.median));
  set(width);
  return { root, set, same: (other) => other.name === width.name && other.of === width.of && other.low === width.low };
}

const symbol = (name) => ({ gamma: "γ", sigma: "σ", length_scale: "ℓ", alpha: "α", coef0: "θ", nu: "ν", degree: "p" })[name] ?? name[0];

/** What either end of a slider does to a kernel. */
const OF_DISTANCES = new Set(["rbf", "gaussian", "laplacian", "cauchy", "chi2"]);
const meaning = ({ name, of }) => (name === "gamma" && OF_DISTANCES.has(String(of).toLowerCase()) ? ["wide, nearly linear", "narrow, every row alone"] : name === "sigma" || name === "length_scale" ? ["narrow", "wide"] : ["small", "large"]);

// A formula as MathML, of which browsers make typeset mathematics; the text of the server is what a screen reader gets.

import { m } from "../core/dom.js";

const TOKEN = /\s*(\d+(?:\.\d+)?(?:e[+-]?\d+)?|[A-Za-zα-ωΓ-Ω][A-Za-z_]*|[₀-₉]+|[⁰¹²³⁴-⁹⁻ⁿᵖᵀᵈ]+|\^|[^\s])/gu;
const RAISED = { "⁰": "0", "¹": "1", "²": "2", "³": "3", "⁴": "4", "⁵": "5", "⁶": "6", "⁷": "7", "⁸": "8", "⁹": "9", "⁻": "−", "ⁿ": "n", "ᵖ": "p", "ᵀ": "T", "ᵈ": "d" };
const LOWERED = "₀₁₂₃₄₅₆₇₈₉";
const FENCES = { "(": ")", "[": "]", "‖": "‖", "|": "|", "⟨": "⟩" };

/** 3.75085e-07 as 3.751 × 10⁻⁷. */
function decimal(text) {
  const [base, power] = String(Number(Number(text).toPrecision(4))).split("e");
  return power ? m("mrow", {}, m("mn", {}, base), m("mo", {}, "×"), m("msup", {}, m("mn", {}, "10"), m("mn", {}, power.replace("-", "−").replace("+", "")))) : m("mn", {}, base);
}

/** An element <math> for a text such as "exp(−γ‖x−y‖²)". */
export function formula(text) {
  const tokens = [...text.replace(/\+\s*[−-]\s*/g, "− ").matchAll(TOKEN)].map((found) => found[1]);
  let at = 0;

  function atom() {
    const token = tokens[at++];
    if (FENCES[token]) {
      const inner = [];
      while (at < tokens.length && tokens[at] !== FENCES[token]) inner.push(raised(atom()));
      at++;
      return m("mrow", {}, m("mo", { fence: "true", stretchy: "false" }, token), inner, m("mo", { fence: "true", stretchy: "false" }, FENCES[token]));
    }
    if (/^\d/.test(token)) return decimal(token);
    if (/^[A-Za-zα-ωΓ-Ω]/u.test(token)) return m("mi", { mathvariant: token.length > 1 ? "normal" : null }, token);
    const first = at === 1 || FENCES[tokens[at - 2]] !== undefined; // a sign, not a difference
    return m("mo", { form: first && /[−-]/.test(token) ? "prefix" : null }, token.replace("*", "·").replace("-", "−"));
  }
  /** What follows may be its exponent or its index. */
  function raised(base) {
    const next = tokens[at];
    if (next && RAISED[next[0]]) {
      at++;
      return raised(m("msup", {}, base, m("mn", {}, [...next].map((c) => RAISED[c]).join(""))));
    }
    if (next && LOWERED.includes(next[0])) {
      at++;
      return raised(m("msub", {}, base, m("mn", {}, [...next].map((c) => LOWERED.indexOf(c)).join(""))));
    }
    if (next === "^" && at + 1 < tokens.length) {
      at++;
      return raised(m("msup", {}, base, atom()));
    }
    return base;
  }
  const parts = [];
  while (at < tokens.length) parts.push(raised(atom()));
  return m("math", { "aria-label": text, display: "inline" }, m("mrow", {}, parts));
}

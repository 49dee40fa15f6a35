// Colours and shapes. Classes have both, so that neither colour vision nor a grey printer decides what can be read.

import { extent } from "./scale.js";

export const CLASSES = 7; // colours, and as many shapes: dot, square, triangle, diamond, plus, cross, ring
/** Classes beyond the seventh have the same colours again with other shapes: no two of 49 look the same. */
export const shapeOf = (code) => (code + 2 * Math.floor(code / CLASSES)) % CLASSES;
const RAMP = 16; // where the colours of numbers begin in the palette of 256
const MUTED = 8; // rows outside a selection

// Viridis (Smith and van der Walt 2015) at nine places.
const VIRIDIS = ["#440154", "#472d7b", "#3b528b", "#2c728e", "#21918c", "#28ae80", "#5ec962", "#addc30", "#fde725"];

const parse = (text) => {
  const hex = text.trim().replace("#", "");
  const six = hex.length === 3 ? [...hex].map((c) => c + c).join("") : hex;
  return [0, 2, 4].map((i) => parseInt(six.slice(i, i + 2), 16));
};

/** A colour between two, as [r, g, b]. */
const mix = (a, b, t) => a.map((x, i) => Math.round(x + (b[i] - x) * t));

/** The viridis colour of t in [0, 1] as [r, g, b]; the ends that vanish on the paper are left out. */
export function ramp(t, dark = false) {
  const u = (dark ? 0.18 + 0.82 * t : 0.9 * t) * (VIRIDIS.length - 1);
  const i = Math.min(VIRIDIS.length - 2, Math.max(0, Math.floor(u)));
  return mix(parse(VIRIDIS[i]), parse(VIRIDIS[i + 1]), Math.min(1, Math.max(0, u - i)));
}

const known = { key: "", theme: null };

/** The colours of the page as they are now, light or dark; read off the style sheet when they change, not with every frame. */
export function theme(element) {
  const key = ["(prefers-color-scheme: dark)", "(forced-colors: active)", "print"].map((query) => matchMedia(query).matches).join();
  if (key !== known.key) Object.assign(known, { key, theme: read(element) });
  return known.theme;
}

function read(element) {
  const style = getComputedStyle(element);
  const text = (name) => style.getPropertyValue(name).trim() || "#888888";
  const dark = style.colorScheme.includes("dark") && matchMedia("screen and (prefers-color-scheme: dark)").matches;
  const rgb = (name) => parse(text(name));
  const classes = Array.from({ length: CLASSES }, (_, i) => text(`--c${i}`));
  const palette = new Uint8Array(256 * 4);
  const put = (i, [r, g, b], a = 255) => palette.set([r, g, b, a], 4 * i);
  classes.forEach((each, i) => put(i, parse(each)));
  put(MUTED, rgb("--muted"));
  for (let i = RAMP; i < 256; i++) put(i, ramp((i - RAMP) / (255 - RAMP), dark));
  return {
    dark, palette, classes, ink: text("--ink"), soft: text("--soft"), line: text("--line"), paper: text("--panel"),
    accent: text("--accent"), low: text("--low"), high: text("--high"), muted: text("--muted"),
  };
}

/** (4m) bytes: colour, shape and whether selected or muted, for each of m rows. */
export function styles(m, { codes = null, shade = null, rows = null, selection = null } = {}) {
  const out = new Uint8Array(4 * m);
  const some = selection && selection.size > 0;
  const [low, high] = shade ? extent(shade, 0, 1, 0) : [0, 1];
  for (let i = 0; i < m; i++) {
    const code = codes ? codes[i] : 0;
    const at = 4 * i;
    out[at] = shade ? RAMP + Math.round(((255 - RAMP) * ((Number.isNaN(shade[i]) ? low : shade[i]) - low)) / (high - low)) : code % CLASSES;
    out[at + 1] = shade ? 0 : shapeOf(code);
    if (some) {
      const chosen = selection.has(rows ? rows[i] : i);
      out[at + 2] = chosen ? 1 : 2;
      if (!chosen) out[at] = MUTED;
    }
  }
  return out;
}

/** Colour i of a palette as a CSS text. */
export const css = (palette, i, alpha = 1) => `rgb(${palette[4 * i]} ${palette[4 * i + 1]} ${palette[4 * i + 2]} / ${alpha})`;

// Axes: from data to pixels and back, with ticks that a person would choose, and numbers as people write them.

/** A linear scale from [a, b] to [p, q]. */
export function linear([a, b], [p, q]) {
  const slope = (q - p) / (b - a || 1);
  return Object.assign((x) => p + (x - a) * slope, {
    domain: [a, b], range: [p, q], log: false,
    invert: (y) => a + (y - p) / slope,
    ticks: (most) => steps(a, b, most),
  });
}

/** A logarithmic scale from [a, b], both positive, to [p, q]. */
export function logarithmic([a, b], range) {
  const inner = linear([Math.log10(a), Math.log10(b)], range);
  return Object.assign((x) => inner(Math.log10(Math.max(x, Number.MIN_VALUE))), {
    domain: [a, b], range, log: true,
    invert: (y) => 10 ** inner.invert(y),
    ticks: (most) => decades(a, b, most),
  });
}

/** Multiples of 1, 2 or 5 times a power of ten within [a, b], `most` at most. */
export function steps(a, b, most = 6) {
  const [low, high] = a < b ? [a, b] : [b, a];
  const rough = (high - low) / Math.max(most, 1);
  if (!(rough > 0) || !Number.isFinite(rough)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * ([1, 2, 5, 10].find((f) => f * power >= rough * 0.999) ?? 10);
  const found = [];
  for (let i = Math.ceil(low / step - 1e-9); i * step <= high * (1 + 1e-12) + step * 1e-9; i++) found.push(Number((i * step).toPrecision(12)));
  return found.length > 1 || most > 12 ? found : steps(a, b, most + 2); // one number is no scale
}

function decades(a, b, most) {
  const first = Math.ceil(Math.log10(a) - 1e-9), last = Math.floor(Math.log10(b) + 1e-9);
  const every = Math.max(1, Math.ceil((last - first + 1) / Math.max(most, 1)));
  const found = [];
  for (let e = first; e <= last; e += every) found.push(10 ** e);
  return found.length > 1 ? found : steps(a, b, most).filter((x) => x > 0);
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

/** 0.00123 → "0.00123", 1234567 → "1.23×10⁶", 12345 → "12 345": `digits` significant ones. */
export function number(x, digits = 3) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size < 1e-3 || size >= 1e6) {
    const [base, power] = x.toExponential(digits - 1).split("e");
    const short = base.replace(/\.?0+$/, "");
    const raised = [...String(Number(power))].map((c) => RAISED[c]).join("");
    return minus(short === "1" ? `10${raised}` : `${short}×10${raised}`);
  }
  const text = String(Number(x.toPrecision(digits)));
  return minus(size >= 1e4 ? thousands(text) : text);
}

/** Counts in full, with thin spaces: 20000 → "20 000". */
export const count = (n) => (n >= 1e4 ? thousands(String(n)) : String(n));
/** Shares as percentages. */
export const percent = (x, digits = 1) => `${minus((100 * x).toFixed(digits))} %`;

const minus = (text) => text.replace("-", "−");
const thousands = (text) => text.replace(/\B(?=(\d{3})+(?!\d))(?<!\.\d*)/g, " ");

/** The texts of ticks with equal numbers of decimals. */
export function labels(ticks, log = false) {
  if (log) return ticks.map((x) => number(x, 2));
  const largest = Math.max(...ticks.map(Math.abs));
  if (largest >= 1e6 || (largest < 1e-3 && largest > 0)) return ticks.map((x) => number(x, 3));
  const step = ticks.length > 1 ? Math.abs(ticks[1] - ticks[0]) : 1;
  const decimals = Math.max(0, Math.min(8, -Math.floor(Math.log10(step) + 1e-9)));
  return ticks.map((x) => minus(largest >= 1e4 ? thousands(x.toFixed(decimals)) : x.toFixed(decimals)));
}

/** [min, max] of every `stride`-th value from `start`, with a margin; never empty, never of zero width. */
export function extent(values, start = 0, stride = 1, margin = 0.06) {
  let low = Infinity, high = -Infinity;
  for (let i = start; i < values.length; i += stride) {
    const v = values[i];
    if (v < low) low = v;
    if (v > high) high = v;
  }
  if (!(low <= high)) return [-1, 1];
  if (low === high) [low, high] = [low - (Math.abs(low) / 2 || 0.5), high + (Math.abs(high) / 2 || 0.5)];
  const pad = margin * (high - low);
  return [low - pad, high + pad];
}

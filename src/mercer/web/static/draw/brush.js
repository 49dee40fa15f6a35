// The ladder: WebGL2, then Canvas 2D. (Beyond what either can draw the server counts rows in cells: see `density`.)

import { flatBrush } from "./flat.js";
import { glBrush } from "./gl.js";
import { ramp } from "./colour.js";

let shared = null;
const watchers = new Set();

/** The brush that all panels share. */
export function brush() {
  shared ??= glBrush(() => {
    shared = flatBrush();
    watchers.forEach((act) => act());
  }) ?? flatBrush();
  return shared;
}

/** Call `act` when the brush has changed because a graphics context was lost. */
export const onBrushLost = (act) => watchers.add(act);

/** Counts (b, b) of rows in cells, from the bottom, as an image whose darkness grows with the logarithm. */
export function density(counts, dark) {
  const [height, width] = counts.shape;
  const most = Math.log1p(counts.reduce((a, b) => Math.max(a, b), 0)) || 1;
  const image = new ImageData(width, height);
  for (let i = 0; i < counts.length; i++) {
    if (!(counts[i] > 0)) continue;
    const row = height - 1 - Math.floor(i / width), t = Math.log1p(counts[i]) / most;
    image.data.set([...ramp(dark ? t : 1 - t, dark), 255], 4 * (row * width + (i % width)));
  }
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width, height });
  canvas.getContext("2d").putImageData(image, 0, 0);
  return canvas;
}

// A row that is a picture, as a picture.

import { h } from "../core/dom.js";

/** Paint h × w grey values, `low` black and `high` white. */
export function paintImage(canvas, values, [height, width], low, high) {
  if (canvas.width !== width || canvas.height !== height) Object.assign(canvas, { width, height });
  canvas.classList.toggle("coarse", width < 32); // pixels that can be counted stay squares
  const image = new ImageData(width, height);
  const span = high - low || 1;
  for (let i = 0; i < width * height; i++) {
    const grey = Math.round(255 * Math.min(1, Math.max(0, (values[i] - low) / span)));
    image.data.set([grey, grey, grey, 255], 4 * i);
  }
  canvas.getContext("2d").putImageData(image, 0, 0);
}

/** A canvas for such a picture, with a name. */
export const imageBox = (name) => {
  const canvas = h("canvas", { class: "image", role: "img", "aria-label": name, width: 8, height: 8 });
  return { canvas, root: h("figure", { class: "image-box" }, canvas, h("figcaption", {}, name)) };
};

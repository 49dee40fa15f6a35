// A plot as a file: the SVG with the colours it has on the page, marks as an image inside it.

import { s } from "../core/dom.js";
import { download } from "../core/files.js";

const KEPT = ["fill", "stroke", "stroke-width", "stroke-dasharray", "fill-opacity", "stroke-opacity", "opacity", "font-size", "font-family", "font-weight", "text-anchor"];

function coloured(source) {
  const copy = source.cloneNode(true);
  const pairs = [[source, copy]];
  while (pairs.length) {
    const [from, to] = pairs.pop();
    const style = getComputedStyle(from);
    for (const name of KEPT) to.setAttribute(name, style.getPropertyValue(name));
    [...from.children].forEach((child, i) => pairs.push([child, to.children[i]]));
  }
  return copy;
}

/** The whole picture as an SVG element of its own. */
export function asSvg(plot) {
  const { width, height } = plot;
  const image = s("image", { href: plot.canvas.toDataURL("image/png"), x: 0, y: 0, width, height });
  return s("svg", { xmlns: "http://www.w3.org/2000/svg", viewBox: `0 0 ${width} ${height}`, width, height },
    s("rect", { width, height, fill: plot.theme.paper }), coloured(plot.under), image, coloured(plot.svg));
}

/** Save a plot as "png" or "svg". */
export async function savePicture(plot, title, form) {
  const name = `${title.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/-$/, "")}.${form}`;
  const blob = new Blob([new XMLSerializer().serializeToString(asSvg(plot))], { type: "image/svg+xml" });
  if (form === "svg") return download(name, blob);
  const image = new Image();
  image.src = URL.createObjectURL(blob);
  await image.decode();
  const canvas = document.createElement("canvas");
  Object.assign(canvas, { width: 2 * plot.width, height: 2 * plot.height });
  canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
  URL.revokeObjectURL(image.src);
  canvas.toBlob((found) => download(name, found), "image/png");
}

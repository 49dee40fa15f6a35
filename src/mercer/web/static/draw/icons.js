// Icons as strokes of one pixel and a half on a grid of sixteen.

import { s } from "../core/dom.js";
import { CLASSES, shapeOf } from "./colour.js";

const PATHS = {
  table: "M2.5 3.5h11v9h-11zM2.5 6.5h11M6.5 6.5v6",
  save: "M8 2.5v7.5M4.8 7.2 8 10.4l3.2-3.2M3 13.2h10",
  copy: "M5.5 5.5h7.5v8h-7.5zM3 10.5v-8h7.5",
  open: "M2.5 12.5v-9h4l1.5 2h5.5v7z",
  stop: "M4.5 4.5h7v7h-7z",
  power: "M8 2.5v5M4.6 4.6a5 5 0 1 0 6.8 0",
  link: "M6.8 9.2l2.4-2.4M7.4 4.9l1.5-1.5a2.6 2.6 0 0 1 3.7 3.7l-1.5 1.5M8.6 11.1l-1.5 1.5a2.6 2.6 0 0 1-3.7-3.7l1.5-1.5",
  close: "M4 4l8 8M12 4l-8 8",
  play: "M5 3.5v9l7-4.5z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
};

export const icon = (name) => s("svg", { class: "icon", viewBox: "0 0 16 16", width: 16, height: 16, "aria-hidden": "true" }, s("path", { d: PATHS[name] }));

/** The mark of a class in a legend. */
export function markOf(code) {
  const shapes = ["M8 8m-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0", "M3.5 3.5h9v9h-9z", "M8 2.6 13 11.4H3z", "M8 2.2 13.8 8 8 13.8 2.2 8z",
    "M6.4 3h3.2v3.4H13v3.2H9.6V13H6.4V9.6H3V6.4h3.4z", "M4.5 2.9 8 6.4l3.5-3.5 1.6 1.6L9.6 8l3.5 3.5-1.6 1.6L8 9.6l-3.5 3.5-1.6-1.6L6.4 8 2.9 4.5z",
    "M8 3a5 5 0 1 0 0 10a5 5 0 1 0 0-10zm0 2.6a2.4 2.4 0 1 1 0 4.8a2.4 2.4 0 1 1 0-4.8z"];
  return s("svg", { class: `mark k${code % CLASSES}`, viewBox: "0 0 16 16", width: 14, height: 14, "aria-hidden": "true" }, s("path", { d: shapes[shapeOf(code)] }));
}

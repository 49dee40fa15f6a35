// The page in a cell of a notebook: the same modules, over the messages of the widget.

import { ended, explore } from "./app.js";
import { h } from "./core/dom.js";
import { overModel } from "./core/wire.js";

export default {
  render({ model, el }) {
    const root = h("div", { class: "mx widget" });
    el.classList.add("mx-box");
    el.append(root);
    explore(root, overModel(model)).catch((error) => ended(root, error.message));
  },
};

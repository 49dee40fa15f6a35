// Files out of the page and into it, and texts into the clipboard.

import { h } from "./dom.js";

/** Hand a file to the browser's downloads. */
export function download(name, blob) {
  const href = URL.createObjectURL(blob);
  const link = h("a", { href, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(href), 10000);
}

/** Put a text on the clipboard; whether that worked. */
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return false;
  }
}

/** Files dropped anywhere on `root` go to `act`, a folder's name to `folder`; the class "dropping" is there while one hovers. */
export function onDrop(root, act, folder) {
  let depth = 0;
  const carries = (event) => [...(event.dataTransfer?.types ?? [])].includes("Files");
  const over = (by) => (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    depth += by;
    root.classList.toggle("dropping", depth > 0);
  };
  root.addEventListener("dragenter", over(1));
  root.addEventListener("dragover", over(0));
  root.addEventListener("dragleave", over(-1));
  root.addEventListener("drop", (event) => {
    if (!carries(event)) return;
    event.preventDefault();
    depth = 0;
    root.classList.remove("dropping");
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.());
    const closed = entries.find((entry) => entry?.isDirectory);
    if (closed) folder(closed.name);
    else act([...event.dataTransfer.files]);
  });
}

// Five questions about the fit, one at a time: only the panel that is seen asks the server.

import { fresh, h } from "../core/dom.js";

const TIME = 1; // the tab of a detector

export function tabs(session, entries, open) {
  const stem = fresh("tab");
  let kind = null, shown = 0;
  const panels = entries.map(([, make]) => make(session, open));
  const heads = entries.map(([name], i) => h("button", { type: "button", role: "tab", id: `${stem}-${i}`, "aria-controls": `${stem}-${i}-panel`, on: { click: () => choose(i), keydown: (event) => key(event, i) } }, name));
  const bodies = panels.map((panel, i) => h("div", { role: "tabpanel", id: `${stem}-${i}-panel`, "aria-labelledby": `${stem}-${i}` }, panel.root));

  function choose(wanted) {
    const at = wanted in panels ? wanted : 0; // a link can ask for anything
    shown = at;
    panels.forEach((panel, i) => {
      const was = panel.visible;
      panel.visible = i === at;
      heads[i].setAttribute("aria-selected", String(i === at));
      heads[i].tabIndex = i === at ? 0 : -1;
      bodies[i].hidden = i !== at;
      if (was && i !== at) panel.onHide?.();
    });
    panels[at].onShow?.();
    if (session.state.view) session.look({ tab: at });
  }
  function key(event, i) {
    const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: heads.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const at = (to + heads.length) % heads.length;
    choose(at);
    heads[at].focus();
  }
  session.store.on(["table"], ({ view, recipe }) => {
    kind = session.kindOf(recipe);
    choose(view?.tab ?? (kind === "detector" ? TIME : 0));
  });
  session.store.on(["recipe"], ({ recipe }) => {
    const was = kind;
    kind = session.kindOf(recipe);
    if (was !== kind && (kind === "detector" || (was === "detector" && shown === TIME))) choose(kind === "detector" ? TIME : 0);
  });
  session.store.on(["view"], ({ view }) => {
    if (!view || (view.tab ?? shown) === shown) return;
    choose(view.tab);
    heads[shown].scrollIntoView({ block: "start" });
  });
  choose(0);
  return h("div", { class: "inspector" }, h("div", { role: "tablist", "aria-label": "Questions about the fit" }, heads), bodies);
}

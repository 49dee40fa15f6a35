// The page: everything is put together here, and nowhere else.

import { button, fill, h } from "./core/dom.js";
import { onDrop } from "./core/files.js";
import { fromHash, toHash, wanted } from "./core/permalink.js";
import { Session } from "./core/session.js";
import { sidebar } from "./controls/sidebar.js";
import { lesson, notices, topbar } from "./controls/topbar.js";
import { tabs } from "./controls/tabs.js";
import { brush } from "./draw/brush.js";
import { count } from "./draw/scale.js";
import { backPanel } from "./panels/back.js";
import { choosePanel } from "./panels/choose.js";
import { comparePanel } from "./panels/compare.js";
import { dataPanel } from "./panels/data.js";
import { importancePanel } from "./panels/importance.js";
import { levelsPanel } from "./panels/levels.js";
import { mercerPanel } from "./panels/mercer.js";
import { scoresPanel } from "./panels/scores.js";
import { spectrumPanel } from "./panels/spectrum.js";
import { timelinePanel } from "./panels/timeline.js";
import { walkPanel } from "./panels/walk.js";

/** Open what was chosen: {builtin}, {table} or {file}, with what a link says of it. */
async function opened(session, { builtin, table, file, watch = false, ...link }) {
  const { info } = session;
  if (file) return received(session, file, watch);
  if (builtin) {
    table = info.tables.find((each) => each.builtin === builtin) ?? { ...(await session.ask("open", { builtin })), builtin };
    await refreshed(session, table);
  }
  session.show(table, link);
  session.say(described(table));
}

const described = (table) => [`${table.title || table.name}: ${count(table.n)} rows`, ...(table.notes ?? [])].join("; ") + ".";

const isModel = ({ name }) => name.toLowerCase().endsWith(".mercer");

/** The columns that a file does not have, whatever the page takes its others for. */
const lacking = (table, names) => {
  const known = new Set([...table.features, ...table.columns.map(({ name }) => name)]);
  return names.filter((name) => !known.has(name));
};

/** Whether rows have the columns of a model; one that knows no names takes as many columns as it has. */
const fits = (table, { features }) => !lacking(table, features).length || (features.every((name, j) => name === `x${j}`) && features.length === table.d);

/** A file that was chosen or dropped: a model is shown; rows go to the model that is shown, where it is a saved one or a detector and takes them. */
async function received(session, file, watch) {
  if (watch && isModel(file)) return session.notify(`${file.name} is a model. Open the file of the rows that are to be judged.`, { level: "warning" });
  session.say(`Reading ${file.name}.`);
  const { model, table } = await session.ask.upload(file).catch((error) => {
    session.say(`${file.name} was not opened.`);
    throw error;
  });
  await refreshed(session, table);
  const now = session.state, shown = session.info.models.find((each) => each.id === now.recipe?.model);
  const alone = table && ["Fit to these rows instead", () => session.show(table)];
  if (model && !table) {
    session.show(now.table, { recipe: { model: model.id } }); // with the rows that are open, if they have its columns
    session.notify(`${model.name} keeps no rows of its own. Drop the file of the rows that it is to ${model.is_detector ? "judge" : "show"} onto the page.`);
  } else if (model) session.show(table, { recipe: { model: model.id } });
  else if (shown && fits(table, shown)) {
    session.show(table, { recipe: now.recipe });
    session.notify(`${shown.name} ${shown.is_detector ? "judges" : "shows"} the ${table.n} rows of ${table.name}.`, { action: alone });
  } else if (session.kindOf(now.recipe) === "detector" && now.table && fits(table, now.table)) {
    session.store.set({ watch: table.id });
    session.notify(`The detector that was fitted to ${now.table.title || now.table.name} judges the ${table.n} rows of ${table.name}.`, { action: alone });
  } else if (watch) { // the detector stays
    const wanted = (shown ?? now.table).features, missing = lacking(table, wanted);
    const words = missing.length ? `lacks ${missing.length > 1 ? "the columns" : "the column"} ${missing.slice(0, 5).join(", ")}${missing.length > 5 ? `, … (${missing.length} in all)` : ""}, which the detector needs` : `has ${table.d} columns and the detector ${wanted.length}`;
    session.notify(`The rows of ${table.name} can't be judged: the file ${words}.`, { level: "warning", action: alone });
  } else session.show(table);
  if (table) session.say(described(table));
}

/** Several files: models first, so that rows go to them. */
async function openAll(open, files) {
  for (const file of files.sort((a, b) => isModel(b) - isModel(a))) await open({ file });
}

/** The tables and models that the server holds now; built-in ones keep their name. */
async function refreshed(session, table) {
  const names = new Map(session.info.tables.filter((each) => each.builtin).map((each) => [each.id, each.builtin]));
  if (table?.builtin) names.set(table.id, table.builtin);
  const { tables, models } = await session.ask("state", {});
  Object.assign(session.info, { models, tables: tables.map((each) => ({ ...each, builtin: each.builtin ?? names.get(each.id) ?? null })) });
}

/** The whole page inside `root`; `quit` ends the server where the page may do that. */
export async function explore(root, ask, { quit = null, address = false } = {}) {
  const info = await ask("state", {});
  const session = new Session(ask, info);
  const open = (what) => opened(session, what).catch(session.complain);
  const panels = [dataPanel, scoresPanel, levelsPanel, spectrumPanel, backPanel, walkPanel].map((make) => make(session));
  const inspector = tabs(session, [["What components mean", importancePanel], ["Over time", timelinePanel], ["Is it a kernel?", mercerPanel], ["Compare", comparePanel], ["Choose a kernel", choosePanel]], open);
  const foot = h("footer", {}, h("span", {}, `mercer ${info.version}`), h("span", {}, `marks drawn by ${brush().name}`), address && h("span", {}, "Nothing leaves this computer."));
  const grid = h("div", { class: "grid" }, panels.map((each) => each.root)), notice = notices(session);
  fill(root, topbar(session, { open, address, quit: quit && (() => quit(session)) }), sidebar(session), h("main", {}, notice, lesson(session), grid, inspector, foot),
    h("div", { class: "drop-sign", "aria-hidden": "true" }, "Drop the file to open it"));
  root.classList.add("mx");
  // A detector is asked about time first, and has neither pre-images nor a walk.
  session.store.on(["recipe", "table"], ({ recipe }) => {
    const watches = session.kindOf(recipe) === "detector";
    panels.slice(-2).forEach((each) => (each.root.hidden = watches));
    if (watches !== (grid.previousSibling === inspector)) (watches ? notice : grid).after(inspector);
    grid.classList.toggle("two", watches);
  });
  // Programs that drive the page wait for the kernel that is drawn at rest, and measure when one is drawn at all: this
  // listener is the last, so its frame is the one in which the panels have drawn.
  session.store.on(["fit"], ({ fit }) => fit && requestAnimationFrame(() => (root.dataset.drawn = JSON.parse(fit.key).kernel ?? "")));
  session.store.on(["fit", "rest", "busy", "rows", "rowsProblem"], () => {
    root.dataset.settled = "";
    requestAnimationFrame(() => {
      const { fit, rest, busy, rows, rowsProblem } = session.state;
      if (rest && fit === rest && !busy && (rows || rowsProblem)) root.dataset.settled = rest.header.fit.kernel;
    });
  });
  if (ask.upload) onDrop(root, (files) => openAll(open, files), (name) => session.notify(`A browser hands over no folders. Open one of pictures with: mercer explore ${name}`, { level: "warning" }));
  if (address) keepAddress(session);
  await begin(session, open, address ? fromHash(location.hash) : null);
  return session;
}

/** The address follows the view, without an entry in the history for every move. */
function keepAddress(session) {
  let due = 0;
  session.store.on(["table", "recipe", "view", "other"], (state) => {
    clearTimeout(due);
    due = setTimeout(() => history.replaceState(null, "", location.pathname + toHash(state)), 200);
  });
}

/** What is shown first: what the link asks for, what the command line gave, or the circles. */
async function begin(session, open, link) {
  const { info } = session;
  if (link) {
    const target = wanted(link, info);
    if (!target.missing) return open({ ...target, recipe: link.recipe ?? null, view: link.view ?? null, other: link.other ?? null });
    session.say(`The link is about ${target.missing}, which is not open. Drop that file onto the page.`);
  }
  const table = info.start && info.tables.find((each) => each.id === info.start.table);
  if (table) return open({ table, recipe: info.start.recipe });
  return open({ builtin: info.builtins[0].name });
}

/** A page whose server has ended, in place of everything. */
export function ended(root, words) {
  fill(root, h("main", { class: "ended" }, h("h1", {}, "mercer explore"), h("p", {}, words), button("Reload", () => location.reload(), { kind: "primary" })));
}

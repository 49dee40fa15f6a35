// Above everything: which rows, what is running, and what can be taken along.

import { button, choice, fill, h } from "../core/dom.js";
import { copyText, download } from "../core/files.js";
import { toHash } from "../core/permalink.js";
import { icon } from "../draw/icons.js";
import { count } from "../draw/scale.js";

const COMPARE = 3; // its tab

/** A menu of buttons behind a <details>, closed by Escape and by a click elsewhere. */
function menu(name, items) {
  const root = h("details", { class: "menu" }, h("summary", { class: "button" }, name), h("div", { class: "sheet" }, items));
  root.addEventListener("keydown", (event) => {
    if (event.key !== "Escape") return;
    root.open = false;
    root.querySelector("summary").focus();
  });
  document.addEventListener("click", (event) => root.contains(event.target) || (root.open = false));
  root.addEventListener("click", (event) => event.target.closest(".sheet button") && (root.open = false));
  return root;
}

/** Rows to choose: built-in ones, those that are open, a file. */
function dataset(session, open) {
  const { store } = session;
  const pick = choice("Rows", [], "", (value) => open(value.startsWith("open ") ? { builtin: value.slice(5) } : { table: session.info.tables.find((each) => each.id === value) }));
  const facts = h("span", { class: "table-facts" });
  const file = h("input", { type: "file", class: "unseen", "aria-label": "Open a file", on: { change: () => {
    if (file.files[0]) open({ file: file.files[0] });
    file.value = ""; // the same file may be opened again
  } } });
  const load = session.ask.upload ? button("Open a file…", () => file.click()) : null;
  file.tabIndex = -1;
  store.on(["table"], ({ table }) => {
    const { tables, builtins } = session.info;
    const known = new Set(tables.map((each) => each.builtin ?? each.name));
    pick.set([...tables.map((each) => [each.id, each.title || each.name]), ...builtins.filter((each) => !known.has(each.name)).map((each) => [`open ${each.name}`, each.title])], table?.id ?? "");
    facts.textContent = table ? `${count(table.n)} rows × ${count(table.d)} ${table.d === 1 ? "column" : "columns"}` : "";
  });
  return h("div", { class: "dataset" }, pick.root, facts, load, file);
}

/** A sentence above the panels: a kernel that failed and what is drawn instead of it, or a file and what was done with it. */
export function notices(session) {
  const { store } = session;
  const root = h("div", { class: "notice", role: "status", hidden: true });
  const kernel = (recipe) => recipe?.kernel ?? (recipe?.kind === "pca" ? "PCA" : "the model before");
  function told({ invalid, fitProblem, fit, recipe, notice }) {
    const back = (to) => [`Back to ${kernel(to)}`, () => (store.set({ invalid: null }), session.restore(to))];
    const failed = fitProblem && fitProblem.code !== "stopped", last = failed ? session.good : recipe;
    if (invalid) return { level: "warning", words: `${invalid.text ? `“${invalid.text}” can’t be used` : "The kernel is missing"}: ${invalid.message}${fit ? ` What is drawn below still belongs to ${kernel(recipe)}.` : ""}`, action: last && back(last) };
    if (failed) return { level: "warning", words: `${recipe.kernel ?? "This model"} could not be fitted: ${fitProblem.message}`, action: last && last !== recipe ? back(last) : null };
    return notice;
  }
  store.on(["invalid", "fitProblem", "fit", "notice"], (state) => {
    const now = told(state);
    root.hidden = !now;
    if (!now) return;
    root.className = `notice ${now.level}`;
    fill(root, h("p", {}, now.words), now.action ? button(now.action[0], now.action[1], { kind: "tiny" }) : null,
      now === state.notice ? button("Close this note", () => store.set({ notice: null }), { icon: icon("close"), kind: "quiet" }) : null);
  });
  return root;
}

/** What PCA makes of the rows, and what this kernel does: where rows have classes, a straight line on the scores tells. */
export function lesson(session) {
  const { store } = session;
  const words = h("p", { "aria-live": "polite" }, "A straight line is tried on the scores.");
  const beside = button("Show PCA beside it", () => {
    store.set({ other: "linear()", otherProblem: null });
    session.look({ tab: COMPARE });
  }, { kind: "tiny" });
  const root = h("div", { class: "lesson", hidden: true }, words, beside);
  let asked = "";
  store.on(["rest", "view", "recipe", "table", "invalid"], async ({ rest, view, recipe, table, invalid }) => {
    root.hidden = invalid || !table?.label || table.classes.shaded || session.kindOf(recipe) === "detector"; // there at once: panels do not move when the words arrive
    if (!rest || !view || root.hidden || rest.key !== session.wanted()) return void root.classList.add("late");
    const mine = JSON.stringify([table.id, rest.key, view.components]);
    if (mine === asked) return void root.classList.remove("late");
    asked = mine;
    const found = await session.ask("separate", { table: table.id, recipe, components: view.components }).catch(() => ({ words: "" }));
    if (mine !== asked) return;
    words.textContent = found.words;
    root.classList.remove("late");
    root.hidden = !found.words;
    beside.hidden = recipe.kind === "pca";
  });
  return root;
}

/** Whether a fit runs, how far it is, and the button that stops it. */
function progress(session) {
  const bar = h("progress", { "aria-label": "Progress of the fit" }), words = h("span", { class: "progress-words" });
  const stop = button("Stop", () => session.stop(), { kind: "alert" });
  const root = h("div", { class: "progress", hidden: true }, bar, words, stop);
  session.store.on(["progress", "busy"], ({ progress: now, busy }) => {
    root.hidden = !busy || !now;
    if (!now) return;
    if (now.expected) Object.assign(bar, { max: now.expected, value: Math.min(now.done ?? 0, now.expected) });
    else bar.removeAttribute("value");
    words.textContent = [now.stage ?? "fitting", now.done ? `${now.done}${now.expected ? ` of ${now.expected}` : ""} ${now.what ?? ""}` : "", now.seconds ? `${now.seconds.toFixed(0)} s` : ""].filter(Boolean).join(", ");
  });
  return root;
}

function copies(session, address) {
  const put = async (text, what) => session.say((await copyText(text)) ? `${what} copied.` : `The browser did not allow copying. ${what}: ${text}`);
  const code = (kind, what) => async () => {
    const { table, recipe } = session.state;
    const found = await session.ask("code", { table: table.id, recipe }).catch(session.complain);
    if (found?.[kind]) put(found[kind], what);
  };
  const link = () => put(location.href.split("#")[0] + toHash(session.state), "Link");
  return menu("Copy", [button("As Python", code("python", "Python")), button("As a command line", code("command", "Command line")), address && button("As a link to this view", link)]);
}

function saves(session) {
  const save = (what, more = {}) => async () => {
    const { table, recipe, view } = session.state;
    session.say("Preparing the file.");
    const file = await session.ask("save", { what, table: table.id, recipe, ...(what === "picture" ? { components: view.components.slice(0, 2), plane: view.plane } : {}), ...more }).catch(session.complain);
    if (!file?.blob) return void session.say("Nothing was saved.");
    download(file.name, file.blob);
    if (what === "model") session.notify(`Saved ${file.name}. In Python: mercer.load("${file.name}")`);
    session.say(`Saved ${file.name}${session.state.invalid ? `, of ${recipe.kernel ?? "the earlier kernel"}: the text in the field can’t be used` : ""}.`);
  };
  return menu("Save", [button("Model (.mercer)", save("model")), button("Scores (CSV)", save("scores", { format: "csv" })), button("Scores (NPY)", save("scores", { format: "npy" })),
    button("Report (HTML)", save("report")), button("Picture of the scores (PNG)", save("picture", { picture: "scores", format: "png" })), button("Picture of the scores (SVG)", save("picture", { picture: "scores", format: "svg" }))]);
}

export function topbar(session, { open, address = false, quit = null }) {
  const said = h("p", { class: "said", role: "status", "aria-live": "polite" });
  let due = 0;
  session.store.on(["said"], ({ said: text }) => { // a screen reader hears one sentence a second at most
    clearTimeout(due);
    due = setTimeout(() => fill(said, text), 300);
  });
  const end = quit && button("Stop the server", quit, { icon: icon("power"), kind: "quiet" });
  return h("header", { class: "topbar" }, h("h1", {}, h("span", { class: "word" }, "mercer"), " explore"), dataset(session, open), progress(session), said, h("div", { class: "take" }, copies(session, address), saves(session), end));
}

// One visit: the table, the recipe and the view that are on the page, and the requests that follow from a change of them.

import { newest } from "./lane.js";
import { createStore, Selection } from "./store.js";
import { isStale } from "./wire.js";

const REST = 150; // ms without a change before the exact fit and the fine grid are asked for
const HELD = 600; // and while a finger is still down: it will move on, and pre-images and walks of a place on its way would slow it down
const WORTH_SAYING = 500; // ms after which a running fit shows its progress

const hex = () => [...crypto.getRandomValues(new Uint8Array(4))].map((b) => b.toString(16).padStart(2, "0")).join("");

/** What a table is shown with before anyone has chosen. */
export const firstView = (table) => ({
  components: [0, 1], level: 0, plane: table.d > 2 ? { pca: true } : { columns: table.d === 1 ? [0, 0] : [0, 1] },
  color: table.label ? "label" : null, fixed: "median", walk: 0, from: "mean",
});

/** The same text for recipes that are the same. */
export const keyOf = (recipe) => JSON.stringify(recipe ?? null);

/** The recipe of the kernel to compare with. */
export const rival = ({ model, ...recipe }, kernel) => ({ ...recipe, kind: recipe.kind === "pca" ? "kpca" : recipe.kind, kernel });

export class Session {
  constructor(ask, info) {
    this.client = hex();
    // Whatever this tab waits for, its Stop ends; and all that is asked about a fit is about the one that is drawn at rest.
    this.ask = Object.assign((name, body, options) => ask(name, { client: this.client, quality: this.state.rest?.header.quality ?? "rest", ...body }, options), ask);
    this.info = info;
    this.generation = 0;
    this.store = createStore({
      table: null, recipe: null, view: null, selection: new Selection(), hover: null, other: null, // the kernel to compare with
      rows: null, rowsProblem: null, fit: null, fitProblem: null, rest: null, otherFit: null, otherProblem: null, // answers
      invalid: null, otherInvalid: null, // a text in a kernel field that is not a kernel: {text, message}
      watch: null, // the table that a detector judges; null: that of the page
      busy: false, progress: null, witness: null, walker: null, said: "", notice: null, restored: 0,
    });
    const lane = (slot) => newest((job, signal) => this.fetchFit(slot, job, signal), {
      busy: (is) => slot === "a" && this.isBusy(is),
      failed: (error) => isStale(error) || this.failed(slot, error),
    });
    this.lanes = { a: lane("a"), b: lane("b") };
    this.rowsLane = newest((job, signal) => this.fetchRows(job, signal), { failed: (error) => isStale(error) || this.store.set({ rowsProblem: error }) });
    this.store.on(["recipe", "view", "other"], (_, changed) => this.refit(changed));
    this.store.on(["view", "table"], () => this.reload());
    this.store.on(["recipe", "rest"], () => this.recolour());
  }

  get state() {
    return this.store.state;
  }

  /** Show a table, by its own suggestion or as a link says. */
  show(table, { recipe = null, view = null, other = null } = {}) {
    this.asked = this.exact = "";
    this.typed = this.good = null; // no model of other rows is a way back
    clearTimeout(this.resting);
    for (const lane of Object.values(this.lanes)) lane.cancel(); // fits to other rows
    const given = recipe ?? table.suggested, own = given.model ? given : { kind: "kpca", ...given }, first = firstView(table);
    if (this.kindOf(own) === "detector" && !first.color) first.color = "alarm"; // what one opens rows with a detector for
    this.store.set({
      selection: new Selection(), hover: null, rows: null, fit: null, rest: null, otherFit: null, witness: null, walker: null, fitProblem: null, rowsProblem: null, otherProblem: null,
      invalid: null, otherInvalid: null, notice: null, watch: table.partner ?? null, table, recipe: own, view: { ...first, ...view }, other,
    });
  }

  /** What the panels of a slot are to show, as a text; a panel that shows anything else is marked. */
  wanted(slot = "a") {
    const { recipe, other } = this.state;
    return keyOf(slot === "a" ? recipe : recipe && other ? rival(recipe, other) : null);
  }

  /** The text of a slot's kernel field that is not a kernel, and why; null where it is one. */
  wrong(slot = "a") {
    return slot === "a" ? this.state.invalid : this.state.otherInvalid;
  }

  /** A fit that failed leaves nothing behind that could be taken for its result. */
  failed(slot, error) {
    if (slot === "b") return void this.store.set({ otherProblem: error, otherFit: null });
    const { fit } = this.state;
    if (error.code === "stopped" && fit?.key === this.wanted()) return; // the quick fit of the same recipe stays
    this.store.set({ fitProblem: error, fit: null, rest: null, witness: null, walker: null });
  }

  /** What a recipe makes: also that of a saved model, which says nothing of it. */
  kindOf(recipe) {
    const saved = this.info.models.find((each) => each.id === recipe?.model);
    return saved?.is_detector ? "detector" : recipe?.kind ?? "kpca";
  }

  /** Change the recipe; null takes a key away. */
  cook(patch) {
    const { model, ...recipe } = { ...this.state.recipe, kind: this.kindOf(this.state.recipe), ...patch };
    for (const key of Object.keys(recipe)) if (recipe[key] === null) delete recipe[key];
    if (keyOf(recipe) !== keyOf(this.state.recipe)) this.store.set({ recipe, fitProblem: null });
  }

  /** A recipe that worked, in place of one that did not. */
  restore(recipe) {
    this.asked = "";
    this.store.set({ recipe: { ...recipe }, fitProblem: null, restored: this.state.restored + 1 });
  }

  /** Another kind of model. A detector has its own kernel and its own number of components, those of the command line. */
  become(kind) {
    const watches = kind === "detector" || this.kindOf(this.state.recipe) === "detector";
    if (kind === "detector" && !this.state.view.color) this.look({ color: "alarm" });
    else if (kind !== "detector" && this.state.view.color === "alarm") this.look({ color: this.state.table.label ? "label" : null });
    const { recipe } = this.state;
    if (this.kindOf(recipe) === "kpca" && !recipe.model) this.typed = recipe.kernel ?? null; // it comes back with kernel PCA
    this.cook({ kind, ...(watches ? { kernel: null, components: null } : {}), ...(kind === "pca" ? { kernel: null } : {}), ...(kind === "kpca" ? { kernel: this.typed ?? null } : {}) });
  }

  look(patch) {
    this.store.set({ view: { ...this.state.view, ...patch } });
  }

  select(rows, how = "replace") {
    this.store.set({ selection: this.state.selection.changed(rows, how) });
  }

  /** A sentence that stays until it is read: {words, level, action: [text, act]}. */
  notify(words, { level = "note", action = null } = {}) {
    this.store.set({ notice: { words, level, action } });
  }

  /** What went wrong, where it can be read to its end. */
  complain = (error) => isStale(error) || this.notify(error.message, { level: "warning" });

  /** One sentence for the live region. */
  say(said) {
    this.store.set({ said });
  }

  // ── fits ────────────────────────────────────────────────────────────────
  refit(changed) {
    const { table, recipe, view, other } = this.state;
    if (!table || !recipe) return;
    const { color, walk, from, tab, ...drawn } = view; // what a fit does not depend on
    const asked = JSON.stringify([table.id, recipe, drawn, other]);
    if (asked === this.asked) return;
    this.asked = asked;
    this.push("drag", changed);
    clearTimeout(this.resting);
    this.resting = setTimeout(() => this.push("rest"), this.held ? HELD : REST);
  }

  push(quality) {
    const { table, recipe, view, other } = this.state;
    const urgent = quality === "drag"; // the exact fit at rest does not take the place of the quick one
    if (!urgent && this.exact === this.wanted()) quality = "exact";
    this.lanes.a.push({ table, recipe, view, quality }, urgent);
    if (other) this.lanes.b.push({ table, recipe: rival(recipe, other), view, quality }, urgent);
  }

  /** A finger went down on a slider, or was lifted: what waits for rest need not wait longer then. */
  hold(held) {
    if (this.held && !held && this.state.rest?.key !== this.wanted()) {
      clearTimeout(this.resting);
      this.resting = setTimeout(() => this.push("rest"), REST);
    }
    this.held = held;
  }

  /** Fit exactly, whatever it takes, until the recipe changes. */
  exactly() {
    clearTimeout(this.resting);
    this.exact = this.wanted();
    this.push("rest");
  }

  async fetchFit(slot, { table, recipe, view, quality }, signal) {
    const panels = { scores: { components: view.components }, spectrum: {} };
    panels.levels = { component: view.level, plane: view.plane, fixed: view.fixed };
    if (slot === "a" && quality !== "drag") panels.back = { plane: view.plane };
    const body = { generation: ++this.generation, slot, table: table.id, recipe, quality, panels };
    const answer = await this.ask("fit", body, { signal });
    if (table !== this.state.table) return;
    answer.key = keyOf(recipe);
    if (slot === "b") return void this.store.set({ otherFit: answer, otherProblem: null });
    if (answer.key === this.wanted()) this.good = recipe; // what a failure can go back to
    this.store.set({ fit: answer, fitProblem: null, ...(quality === "drag" ? {} : { rest: answer.header.stopped ? null : answer }) });
  }

  isBusy(is) {
    clearInterval(this.watch);
    this.store.set({ busy: is, progress: null });
    if (!is) return;
    const since = performance.now();
    let asking = false; // a browser opens six connections: a slow answer must not take them all
    this.watch = setInterval(async () => {
      if (performance.now() - since < WORTH_SAYING || asking) return;
      if (!this.state.progress) this.store.set({ progress: { running: true } }); // Stop can be pressed before a busy server answers
      asking = true;
      const progress = await this.ask("progress", {}).catch(() => null);
      asking = false;
      if (this.state.busy && progress?.running) this.store.set({ progress });
    }, WORTH_SAYING);
  }

  async stop() {
    clearTimeout(this.resting);
    for (const lane of Object.values(this.lanes)) lane.drop(); // or the next fit would begin when this one has ended
    await this.ask("stop", {});
    this.say("Stopped. What is drawn is the last fit that was finished.");
  }

  // ── rows and their colours ──────────────────────────────────────────────
  reload() {
    const { table, view, recipe } = this.state;
    if (!table || !view) return;
    const wanted = JSON.stringify([table.id, view.plane, view.color, recipe?.scale]);
    if (wanted === this.loaded) return;
    this.loaded = wanted;
    this.rowsLane.push({ table, view, recipe });
  }

  /** Colours that come of the fit follow it at rest. */
  recolour() {
    const { view, recipe, table } = this.state;
    if (!view || !table) return;
    const fitted = view.color === "alarm" || view.color?.component !== undefined;
    if (fitted || (view.plane.pca && recipe.scale !== this.scale)) this.loaded = "";
    this.reload();
  }

  async fetchRows({ table, view, recipe }, signal) {
    this.scale = recipe?.scale;
    const fitted = view.color === "alarm" || view.color?.component !== undefined;
    const body = { table: table.id, scale: recipe?.scale ?? "standard", plane: view.plane, color: view.color, ...(fitted ? { recipe } : {}) };
    const rows = await this.ask("rows", body, { signal });
    rows.key = fitted ? keyOf(recipe) : null; // colours of a fit are outdated with it
    if (table === this.state.table) this.store.set({ rows, rowsProblem: null });
  }
}

/** Colours of the m rows of a fit, though the table may show another sample of them. */
export function coloursFor(rows, numbers, m) {
  if (!rows || rows.header.shown.how === "density") return { codes: null, shade: null };
  const { codes = null, shade = null, rows: known = null } = rows.arrays;
  if (!numbers && !known) return { codes, shade };
  const place = new Map(known ? Array.from(known, (row, i) => [row, i]) : []);
  const pick = (from) => from && Float32Array.from({ length: m }, (_, i) => {
    const row = numbers ? numbers[i] : i;
    const at = known ? place.get(row) : row;
    return at === undefined ? 0 : from[at];
  });
  return { codes: pick(codes), shade: pick(shade) };
}

// A detector's rows over time: statistics with limits, alarms, what led when each run began, and the row under the cursor.

import { button, choice, fill, h, s } from "../core/dom.js";
import { keyOf } from "../core/session.js";
import { isStale } from "../core/wire.js";
import { Plot } from "../draw/plot.js";
import { number } from "../draw/scale.js";
import { panel } from "./frame.js";

const MOST_BARS = 10;

/** A time as people write it: 2026-01-05 09:38. */
const spoken = (text) => text.replace(/(\d{4}-\d\d-\d\d)T(?=\d)/g, "$1 ");

const clock = (hour) => hour.slice(0, 8).replace(/:00$/, (end, at) => (at > 2 ? "" : end));

/** The time of a row as a text; only the hour where the day is that of the tick before. */
function when(times, row, before) {
  const [day, hour = ""] = String(times[row] ?? "").split("T");
  return before !== null && hour && String(times[before]).startsWith(day) ? clock(hour) : `${day} ${clock(hour)}`.trim();
}

/** One statistic over rows. */
class Chart {
  constructor(name, point) {
    this.plot = new Plot(`${name} of rows over time`, { height: 0.2, least: 150, margin: { left: 64, bottom: 36 } });
    this.cursor = s("line", { class: "cursor" });
    this.limit = s("line", { class: "limit" });
    this.plot.over.append(this.limit, this.cursor);
    this.plot.layers.push((context) => this.draw(context));
    const { root } = this.plot;
    root.tabIndex = 0;
    root.setAttribute("role", "application");
    root.setAttribute("aria-roledescription", "control chart");
    root.classList.add("live");
    root.addEventListener("pointermove", (event) => point(this.rowAt(event.clientX - root.getBoundingClientRect().left)));
    root.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageUp: -20, PageDown: 20 }[event.key];
      if (!step) return;
      event.preventDefault();
      point(Math.max(0, Math.min(this.values.length - 1, (this.row ?? 0) + step)));
    });
  }

  rowAt(px) {
    return Math.max(0, Math.min(this.values.length - 1, Math.round(this.plot.x.invert(px))));
  }

  show({ name, limit, ends, log }, values, alarm, judged, axis, times) {
    Object.assign(this, { values, alarm, judged, limitAt: limit });
    const n = values.length;
    const own = this.plot.constructor.prototype.ticks;
    this.plot.ticks = (scale, shift, most) => {
      const found = own.call(this.plot, scale, shift, most);
      if (scale !== this.plot.x || !times) return found;
      return own.call(this.plot, scale, shift, Math.floor(most / 3)).map(({ at }, i, all) => ({ at, text: when(times, this.rowAt(at), i ? this.rowAt(all[i - 1].at) : null) }));
    };
    this.plot.show({ x: [-0.5, n - 0.5], y: ends, ylog: log, xlabel: axis, ylabel: name });
  }

  draw(context) {
    const { plot, values, alarm, judged } = this;
    if (!values) return;
    const { left, top, width, height } = plot.box;
    const top1 = plot.wanted.y[1];
    context.beginPath();
    context.rect(left, top, width, height);
    context.clip();
    const y = (v) => plot.y(Number.isFinite(v) ? v : top1);
    context.beginPath();
    for (let i = 0; i < values.length; i++) if (judged[i]) context.lineTo(plot.x(i), y(values[i]));
    context.strokeStyle = plot.theme.classes[0];
    context.lineWidth = 1.1;
    context.stroke();
    context.fillStyle = plot.theme.classes[1];
    for (let i = 0; i < values.length; i++) if (alarm[i]) context.fillRect(plot.x(i) - 2, y(values[i]) - 2, 4, 4);
    context.fillStyle = plot.theme.soft;
    for (let i = 0; i < values.length; i++) if (!judged[i]) context.fillRect(plot.x(i) - 0.5, top + height - 6, 1, 6);
    const at = this.limitAt === null ? -10 : plot.y(this.limitAt);
    for (const [key, value] of Object.entries({ x1: left, x2: left + width, y1: at, y2: at })) this.limit.setAttribute(key, value);
    this.follow(this.row);
  }

  follow(row) {
    this.row = row;
    this.cursor.toggleAttribute("hidden", row === null || row === undefined);
    if (row === null || row === undefined || !this.plot.box) return;
    const x = this.plot.x(row), { top, height } = this.plot.box;
    for (const [key, value] of Object.entries({ x1: x, x2: x, y1: top, y2: top + height })) this.cursor.setAttribute(key, value);
  }
}

/** The variables behind a row, largest first. */
function blame({ names, caption, called }, values) {
  const most = Math.max(...values.map(Math.abs), 1e-12);
  const whose = `What each variable adds to the statistic of ${/^\d+$/.test(called) ? "row " : ""}${spoken(called)}: ${caption}`;
  return [h("p", { class: "note" }, whose), h("ol", { class: "moves" }, names.slice(0, MOST_BARS).map((name, j) => {
    const bar = h("span", { class: values[j] < 0 ? "move less" : "move alarm" });
    bar.style.left = "0";
    bar.style.width = `${(100 * Math.abs(values[j])) / most}%`;
    return h("li", {}, h("span", { class: "name" }, name), h("span", { class: "lane" }, bar), h("span", { class: "value" }, number(values[j])));
  }))];
}

/** Runs of alarms as buttons that move the cursor to where each began. */
const runList = (runs, point) => runs.length ? h("ol", { class: "run-list" }, runs.map((run) => h("li", {}, button(spoken(run.words), () => point(run.first), { kind: "link" }),
  run.leaders?.length ? h("span", {}, ` led by ${run.leaders.map(({ name }) => name).join(", ")}`) : null))) : h("p", { class: "note" }, "No row is beyond a limit for long enough to be an alarm.");

/** Which rows are judged: those of the page, others that are open, or a file that is opened for it. */
function watching(session, open) {
  const pick = choice("Rows to watch", [], "", (value) => session.store.set({ watch: value || null }));
  const file = h("input", { type: "file", class: "unseen", tabindex: "-1", "aria-label": "File of rows to watch", on: { change: () => {
    if (file.files[0]) open({ file: file.files[0], watch: true });
    file.value = ""; // the same file may be opened again
  } } });
  const load = session.ask.upload ? button("Open rows to watch…", () => file.click(), { kind: "tiny" }) : null;
  const hint = h("span", { class: "words" }, session.ask.upload ? "or drop their file onto the page" : "");
  return {
    roots: [pick.root, load, file, hint],
    set({ table, recipe, watch }) {
      const others = session.info.tables.filter((each) => each.id !== table.id && table.features.every((name) => each.features.includes(name)));
      const own = `${table.title || table.name}${recipe.model ? "" : " (fitted to these)"}`;
      pick.set([["", own], ...others.map((each) => [each.id, each.title || each.name])], others.some((each) => each.id === watch) ? watch : "");
    },
  };
}

export function timelinePanel(session, open) {
  const { store } = session;
  const summary = h("p", { class: "lede" }), runs = h("div", { class: "runs" }), contributions = h("div", { class: "blame" });
  const holder = h("div", { class: "charts" });
  const body = h("div", { class: "timeline" }, summary, holder, h("div", { class: "columns" }, h("div", {}, h("h3", {}, "Runs of alarms"), runs), h("div", {}, h("h3", {}, "Variables behind the row under the cursor"), contributions)));
  const watch = watching(session, open);
  const frame = panel(session, "Over time", { controls: watch.roots, body, kind: "wide" });
  let charts = [], asked = "", row = null, timer = null;

  function point(next) {
    if (next === row) return;
    row = next;
    charts.forEach((chart) => chart.follow(row));
    clearTimeout(timer);
    timer = setTimeout(() => explain(row), 60);
    if (!store.state.watch) store.set({ hover: row });
  }

  async function explain(at) {
    const { table, recipe, watch: watched } = store.state;
    try {
      const { header, arrays } = await session.ask("contributions", { table: table.id, recipe, watch: watched, row: at });
      if (at === row) fill(contributions, blame(header, Array.from(arrays.contributions)));
    } catch (error) {
      if (at === row) fill(contributions, h("p", { class: "note" }, error.message));
    }
  }

  async function fetchIt() {
    const { table, recipe, watch: watched } = store.state, mine = asked;
    frame.say("Judging rows.");
    try {
      const { header, arrays } = await session.ask("detector", { table: table.id, recipe, watch: watched, time: null });
      if (mine === asked) draw(header, arrays, keyOf(recipe));
    } catch (error) {
      if (mine === asked && !isStale(error)) frame.say(error.message, button("Try again", fetchIt));
    }
  }

  function draw(header, arrays, key) {
    charts = header.charts.map((info) => new Chart(info.name, point));
    fill(holder, charts.map((chart) => chart.plot.root));
    const sentences = [header.legend, header.limits, header.shown && header.shown.how !== "all" && header.shown.words].filter(Boolean);
    frame.ready({ tables: header.tables, caption: sentences.map((text) => (/[.]$/.test(text) ? text : `${text}.`)).join(" "), key });
    charts.forEach((chart, i) => chart.show(header.charts[i], arrays[`chart${i}`], arrays.alarm, arrays.judged, header.axis, header.times));
    summary.textContent = spoken(header.caption);
    fill(runs, runList(header.runs, point));
    row = null;
    point(header.runs[0]?.first ?? Math.max(0, arrays.judged.findIndex(Boolean)));
  }

  function refresh() {
    const { rest, recipe, table, watch: watched, fitProblem } = store.state;
    const is = recipe && session.kindOf(recipe) === "detector";
    watch.roots.forEach((each) => each && (each.hidden = !is));
    if (!rest || !recipe) {
      asked = "";
      return frame.say(fitProblem?.message ?? "Waiting for a fit.");
    }
    if (!is) {
      asked = "";
      return frame.say("Rows over time need a detector, whose limits come from rows of normal operation.", button("Fit a detector to these rows", () => session.become("detector"), { kind: "primary" }));
    }
    watch.set(store.state);
    const now = JSON.stringify([table.id, rest.key, rest.header.generation, watched]);
    if (!frame.visible || now === asked || rest.key !== session.wanted()) return;
    asked = now;
    fetchIt();
  }
  store.on(["rest", "recipe", "table", "watch", "fitProblem"], refresh);
  return Object.assign(frame, { onShow: refresh });
}

// The view as the part of the address after "#": what a link or a reload brings back. The server never sees it.

const BUILT_IN = "built-in";

/** The state as a text for the address. */
export function toHash({ table, recipe, view, other }) {
  if (!table) return "";
  const from = table.builtin ? { [BUILT_IN]: table.builtin } : { source: table.source ?? table.name };
  const { model, ...rest } = recipe ?? {};
  return `#${encodeURIComponent(JSON.stringify({ table: from, recipe: model ? recipe : rest, view, other: other || undefined }))}`;
}

/** What the page itself reads of a link, of the kind that it writes; the server judges the rest. */
const VIEW = { components: Array.isArray, level: Number.isInteger, walk: Number.isInteger, tab: Number.isInteger, plane: (value) => value !== null && typeof value === "object" };
const RECIPE = { kernel: (value) => typeof value === "string" };
const kept = (given, kinds) => given && Object.fromEntries(Object.entries(given).filter(([key, value]) => kinds[key]?.(value) ?? true));

/** What the address asks for, or null where it asks for nothing that can be read. */
export function fromHash(hash) {
  if (!hash || hash.length < 2) return null;
  try {
    const found = JSON.parse(decodeURIComponent(hash.slice(1)));
    if (!found?.table) return null;
    return { ...found, view: kept(found.view, VIEW), recipe: kept(found.recipe, RECIPE) };
  } catch {
    return null;
  }
}

/** Which table of `state` a link means: {builtin}, {table}, or {missing: name}. */
export function wanted(link, state) {
  const name = link.table[BUILT_IN];
  if (name && state.builtins.some((b) => b.name === name)) return { builtin: name };
  const source = link.table.source ?? name;
  const table = state.tables.find((t) => t.source === source || t.name === source);
  return table ? { table } : { missing: String(source ?? "a file") };
}

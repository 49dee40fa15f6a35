// What a row is: asked of the server once it is pointed at, and kept.

const known = new Map(); // "table row" → lines

/** Lines about a row: its number at once, its values when they have arrived. */
export function describe(session, row) {
  const { table } = session.state;
  const key = `${table.id} ${row}`;
  if (known.has(key)) return known.get(key);
  const title = `row ${row}`;
  known.set(key, [title]);
  if (known.size > 5000) known.clear();
  clearTimeout(session.tipTimer);
  session.tipTimer = setTimeout(() => fetchRow(session, table, row, key), 40);
  return [title];
}

async function fetchRow(session, table, row, key) {
  try {
    const found = await session.ask("row", { table: table.id, row });
    const name = found.id && found.id !== String(row) ? found.id : `row ${row}`;
    const values = found.values.slice(0, 6).map(({ name: column, value }) => `${column} = ${value}`);
    const more = found.values.length > 6 ? [`… ${found.values.length - 6} more columns`] : [];
    known.set(key, [found.label ? `${name}, ${found.label}` : name, ...values, ...more]);
    if (session.state.hover === row) session.store.set({ hover: null }), session.store.set({ hover: row });
  } catch {
    known.delete(key);
  }
}

// What a row is: asked of the server once it is pointed at, and kept.

import { imageBox, paintImage } from "./image.js";

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

/** A row of pixels as the picture that it is. */
async function pictureOf(session, table, row) {
  const { header, arrays } = await session.ask("image", { table: table.id, rows: [row] });
  const box = imageBox(`row ${row}`);
  paintImage(box.canvas, arrays.images, table.image_shape, header.low, header.high);
  return box.canvas;
}

async function fetchRow(session, table, row, key) {
  try {
    const found = await session.ask("row", { table: table.id, row });
    const name = found.id && found.id !== String(row) ? found.id : `row ${row}`;
    const picture = table.image_shape && (await pictureOf(session, table, row));
    const values = picture ? [] : found.values.slice(0, 6).map(({ name: column, value }) => `${column} = ${value}`);
    const more = !picture && found.values.length > 6 ? [`… ${found.values.length - 6} more columns`] : [];
    known.set(key, Object.assign([found.label ? `${name}, ${found.label}` : name, ...values, ...more], { picture }));
    if (session.state.hover === row) session.store.set({ hover: null }), session.store.set({ hover: row });
  } catch {
    known.delete(key);
  }
}

// What the page shows, in one place. Panels listen to the keys they draw; nobody holds a copy.

export function createStore(initial) {
  const state = { ...initial };
  const listeners = []; // {keys: Set, act}
  return {
    state,
    /** Change keys, then call each listener of any of them once. */
    set(patch) {
      const changed = Object.keys(patch).filter((key) => patch[key] !== state[key]);
      if (!changed.length) return;
      Object.assign(state, patch);
      for (const { keys, act } of listeners) if (changed.some((key) => keys.has(key))) act(state, changed);
    },
    on(keys, act) {
      listeners.push({ keys: new Set(keys), act });
    },
  };
}

/** Rows by number: a selection is the same rows in every panel. */
export class Selection {
  constructor(rows = []) {
    this.rows = new Set(rows);
  }

  get size() {
    return this.rows.size;
  }

  has(row) {
    return this.rows.has(row);
  }

  /** This selection changed by rows: "replace", "add", "remove" or "toggle". */
  changed(rows, how) {
    const next = new Set(how === "replace" ? [] : this.rows);
    for (const row of rows) {
      if (how === "remove" || (how === "toggle" && next.has(row))) next.delete(row);
      else next.add(row);
    }
    return new Selection(next);
  }

  sorted() {
    return [...this.rows].sort((a, b) => a - b);
  }
}

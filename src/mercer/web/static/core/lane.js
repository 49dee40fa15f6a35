// One request at a time; of those that wait only the newest is kept. A request that has run long gives way at once.

const PATIENCE = 400; // ms: a quick answer is worth painting even when the finger has moved on, a slow one is not

/** newest(run): `push(job)` runs `run(job, signal)`, skipping all jobs but the last that arrived meanwhile. */
export function newest(run, { busy = () => {}, failed = () => {} } = {}) {
  let current = null; // {controller, since}
  let pending = null;

  async function start(job) {
    current = { controller: new AbortController(), since: performance.now() };
    const mine = current;
    busy(true);
    try {
      await run(job, mine.controller.signal);
    } catch (error) {
      if (!mine.controller.signal.aborted && !pending) failed(error);
    }
    if (current !== mine) return;
    current = null;
    if (pending) {
      const next = pending;
      pending = null;
      start(next);
    } else busy(false);
  }

  return {
    push(job) {
      if (!current) return void start(job);
      pending = job;
      if (performance.now() - current.since > PATIENCE) current.controller.abort();
    },
    /** Forget what waits; what runs goes on until it is answered. */
    drop() {
      pending = null;
    },
  };
}

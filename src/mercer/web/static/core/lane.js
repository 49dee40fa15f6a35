// One request at a time; of those that wait only the newest is kept. A request that has run long gives way to an urgent one.

const PATIENCE = 400; // ms: a quick answer is worth painting even when the finger has moved on, a slow one is not

/** newest(run): `push(job)` runs `run(job, signal)`, skipping all jobs but the last that arrived meanwhile. */
export function newest(run, { busy = () => {}, failed = () => {} } = {}) {
  let current = null; // {controller, since}
  let pending = null; // the newest urgent job
  let later = null; // one that waits for all urgent ones

  async function start(job) {
    current = { controller: new AbortController(), since: performance.now() };
    const mine = current;
    busy(true);
    try {
      await run(job, mine.controller.signal);
    } catch (error) {
      if (!mine.controller.signal.aborted && !pending && !later) failed(error);
    }
    if (current !== mine) return;
    current = null;
    const next = pending ?? later;
    if (next === later) later = null;
    pending = null;
    if (next) start(next);
    else busy(false);
  }

  return {
    /** A job that is not urgent waits for what runs and for the urgent one behind it. */
    push(job, urgent = true) {
      if (!current) return void start(job);
      if (!urgent) return void (later = job);
      [pending, later] = [job, null];
      if (performance.now() - current.since > PATIENCE) current.controller.abort();
    },
    /** Forget what waits; what runs goes on until it is answered. */
    drop() {
      pending = later = null;
    },
    /** Give up what runs too: its answer would be about a fit that is no longer on the page. */
    cancel() {
      pending = later = null;
      current?.controller.abort();
    },
  };
}

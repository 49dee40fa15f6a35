// One request at a time; of those that wait only the newest is kept. A request gives way to an urgent one when it has run long,
// but not twice in a row: while a finger moves without a pause, every other answer is drawn however slow it is.

const PATIENCE = { urgent: 2000, other: 100 }; // ms that an urgent request, and one that is not, may run when a newer one waits

/** newest(run): `push(job)` runs `run(job, signal)`, skipping all jobs but the last that arrived meanwhile. */
export function newest(run, { busy = () => {}, failed = () => {} } = {}) {
  let current = null; // {controller, since, urgent}
  let pending = null; // the newest urgent job
  let later = null; // one that waits for all urgent ones
  let gaveWay = false;

  async function start(job, urgent) {
    current = { controller: new AbortController(), since: performance.now(), urgent };
    const mine = current;
    busy(true);
    try {
      await run(job, mine.controller.signal);
      gaveWay = false;
    } catch (error) {
      if (!mine.controller.signal.aborted && !pending && !later) failed(error);
    }
    if (current !== mine) return;
    current = null;
    const next = pending ?? later, isUrgent = pending !== null;
    if (next === later) later = null;
    pending = null;
    if (next) start(next, isUrgent);
    else busy(false);
  }

  /** Whether what runs has had its time. */
  const tooLong = () => performance.now() - current.since > (current.urgent ? (gaveWay ? Infinity : PATIENCE.urgent) : PATIENCE.other);

  return {
    /** A job that is not urgent waits for what runs and for the urgent one behind it. */
    push(job, urgent = true) {
      if (!current) return void start(job, urgent);
      if (!urgent) return void (later = job);
      [pending, later] = [job, null];
      if (!tooLong() || current.controller.signal.aborted) return;
      gaveWay = current.urgent;
      current.controller.abort();
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

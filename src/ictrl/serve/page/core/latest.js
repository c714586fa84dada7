// For what is asked faster than it is answered: one request at a time, and of those that wait only the latest.

/** A function that does the work for its latest argument. */
export function latest(work) {
  let busy = false;
  let waits = null;
  return async function next(argument) {
    waits = { argument };
    if (busy) return;
    busy = true;
    try {
      while (waits !== null) {
        const { argument: now } = waits;
        waits = null;
        await work(now);
      }
    } finally {
      busy = false;
    }
  };
}

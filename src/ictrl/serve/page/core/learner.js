// What is known of the learner: GET /classes, kept up to date, also when somebody else changes it.

import { askJson } from "./api.js";
import { isLost, onBack } from "./connection.js";

const LOOK = 3000; // milliseconds
let facts = null;
const listeners = new Set();
const teachingListeners = new Set();

/** The last answer of GET /classes; null before the first. */
export const learner = () => facts;

/** Call this whenever the learner has changed; returns how to stop that. */
export function onChange(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

/** Call this when the service teaches, whoever began it. */
export const onTeachingElsewhere = listener => teachingListeners.add(listener);

/** Ask again what the learner knows. */
export async function refresh() {
  take(await askJson("classes"));
  return facts;
}

/** An answer that describes the learner as GET /classes does. */
export function take(answer) {
  const changed = facts === null || JSON.stringify(facts) !== JSON.stringify(answer);
  facts = answer;
  if (changed) for (const listener of listeners) listener(facts);
}

/** Notice what others do, by the smallest of all requests, while somebody looks at the page. */
export function keepWatch() {
  onBack(() => refresh().catch(() => {}));
  setInterval(look, LOOK);
  document.addEventListener("visibilitychange", look);
}

async function look() {
  if (document.hidden || isLost() || facts === null) return;
  try {
    const health = await askJson("healthz");
    if (health.version !== facts.version || health.classes !== facts.classes.length) await refresh();
    if (health.teaching) for (const listener of teachingListeners) listener();
  } catch {
    /* who asked says so already */
  }
}

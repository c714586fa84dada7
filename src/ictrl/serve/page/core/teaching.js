// The one teaching that may go on, whoever began it: idle → sending → learning → done, failed or cancelled.
//
// Who begins it follows the events of the answer. After a reload, in another tab, or where the connection broke, the
// service is asked how far it is instead: teaching goes on without anybody listening.

import { ask, askJson } from "./api.js";
import { isLost, onBack } from "./connection.js";
import { learner, onTeachingElsewhere, refresh } from "./learner.js";
import { reduced } from "./reduce.js";
import { complain } from "./say.js";
import { events } from "./stream.js";

const LOOK = 700; // milliseconds between questions
const KEY = "ictrl-taught-from";
let state = { phase: "idle" };
let following = false;
let sending = null; // what ends an upload
const listeners = new Set();

export const teaching = () => state;

/** Call this whenever it goes on; returns how to stop that. */
export function onTeaching(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function become(next) {
  state = next;
  for (const listener of listeners) listener(state);
}

/** Look away from what came of the last one. */
export function dismiss() {
  store(null);
  become({ phase: "idle" });
}

/** Pick up what goes on already, now and whenever somebody else begins. */
export function teachingAtStart() {
  onTeachingElsewhere(follow);
  onBack(follow);
  follow();
}

/** Teach: a map from names to files. Throws where the service refuses it before it learns anything. */
export async function teach(classes, heldOut) {
  const counts = Object.fromEntries([...classes].map(([name, files]) => [name, files.length]));
  const from = learner().version;
  store(from);
  sending = new AbortController();
  become({ phase: "sending", classes: counts, from });
  try {
    const body = new FormData(); // the name of each part is its class
    for (const [name, files] of classes) {
      for (const file of files) {
        body.append(name, await reduced(file, learner().image_size), file.name);
      }
    }
    following = true;
    const response = await ask(`teach?held_out=${heldOut}`, { method: "POST", body, signal: sending.signal });
    sending = null;
    become({ phase: "learning", classes: counts, epoch: 0, epochs: null, seconds: 0, from });
    for await (const { event, data } of events(response)) await happened(event, data, from);
  } catch (error) {
    if (state.phase === "sending") {
      become({ phase: "idle" });
      if (error.name === "AbortError") return;
      throw error;
    }
    // the connection broke, and teaching goes on
  } finally {
    following = false;
  }
  if (state.phase === "learning") await follow();
}

/** Stop sending, or ask the service to leave the learner as it was. */
export async function cancel() {
  if (state.phase === "sending") return sending?.abort();
  become({ ...state, cancelling: true });
  try {
    await ask("teaching", { method: "DELETE" });
  } catch (error) {
    become({ ...state, cancelling: false });
    if (error.status !== 409) throw error; // it had ended by then: what came of it is shown
  }
}

async function happened(event, data, from) {
  if (event === "begin") become({ ...state, phase: "learning", classes: data.classes });
  else if (event === "progress") become({ ...state, phase: "learning", ...data });
  else if (event === "done") {
    await refresh().catch(() => {});
    become({ phase: "done", from, ...data });
  } else if (event === "error") become({ phase: "failed", error: data.error });
  else if (event === "cancelled") become({ phase: "cancelled" });
}

async function follow() {
  if (following || state.phase === "sending") return;
  following = true;
  try {
    for (;;) {
      const found = await askJson("teaching");
      if (!found.teaching) {
        await ended(found.last ?? null);
        break;
      }
      const { classes, epoch, epochs, seconds } = found;
      become({ ...state, phase: "learning", classes, epoch, epochs, seconds, from: startedFrom() ?? learner().version });
      await new Promise(resolve => setTimeout(resolve, LOOK));
    }
  } catch (error) {
    if (!isLost()) complain(error); // where it does not answer, this begins again once it does
  } finally {
    following = false;
  }
}

/** What came of one that was followed; of one that ended before the page was opened only where it is the present one. */
async function ended(last) {
  const watched = state.phase === "learning";
  if (last === null) return watched ? become({ phase: "failed", error: "The service does not say what came of it." }) : undefined;
  const { outcome: event, ...data } = last;
  if (watched) {
    await refresh().catch(() => {});
    await happened(event, data, startedFrom());
  } else if (event === "done" && data.version === learner().version && startedFrom() !== null) {
    become({ phase: "done", from: startedFrom(), ...data });
  }
}

/** The version to go back to, also after a reload. */
function store(version) {
  try {
    if (version === null) sessionStorage.removeItem(KEY);
    else sessionStorage.setItem(KEY, String(version));
  } catch {
    /* then a reload cannot offer to undo */
  }
}

function startedFrom() {
  try {
    const found = sessionStorage.getItem(KEY);
    return found === null ? null : Number(found);
  } catch {
    return null;
  }
}

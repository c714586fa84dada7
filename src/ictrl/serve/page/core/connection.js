// Whether the server answers. Where it does not, the page says so and tries again until it does.

import { announce, banner } from "./say.js";

const AGAIN = [500, 1000, 2000, 4000, 8000]; // milliseconds between attempts
let attempt = 0;
let timer = null;
const waiting = new Set();

/** Call this each time that the server is back. */
export const onBack = callback => waiting.add(callback);

export const isLost = () => timer !== null;

export function lost() {
  if (timer !== null) return;
  banner("The server does not answer. Trying to reach it again …");
  attempt = 0;
  later();
}

export function reached() {
  if (timer === null) return;
  clearTimeout(timer);
  timer = null;
  banner(null);
  announce("The server answers again.");
  for (const callback of waiting) callback();
}

function later() {
  timer = setTimeout(again, AGAIN[Math.min(attempt++, AGAIN.length - 1)]);
}

async function again() {
  try {
    if ((await fetch("healthz", { cache: "no-store" })).ok) return reached();
  } catch {
    /* not yet */
  }
  if (timer !== null) later();
}

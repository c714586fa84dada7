// What the page says: quietly to a screen reader, or to everybody in a line at the edge.

import { button, el, fill } from "./dom.js";

const LASTS = 8000; // milliseconds

/** For who cannot see what changed. */
export function announce(text) {
  const said = document.getElementById("said");
  said.textContent = "";
  setTimeout(() => (said.textContent = text), 50); // a region that was empty is read out even if the words are the same
}

/** A line that goes away by itself, unless it tells of something that went wrong. */
export function toast(...words) {
  show("toast", null, words, LASTS);
}

export function complain(error) {
  show("toast wrong", "alert", [error.message ?? String(error)], 0);
}

addEventListener("hashchange", () => fill(document.getElementById("toasts")));  // they were about another view

function show(looks, role, words, lasts) {
  const line = el("div", { class: looks, role }, el("p", {}, words));
  const away = button("Dismiss", { drawing: "close", onlyDrawing: true, onclick: () => line.remove() });
  line.append(away);
  document.getElementById("toasts").append(line);
  if (lasts) setTimeout(() => line.remove(), lasts);
}

/** A line above the page for as long as something is the matter; null takes it away. */
export function banner(...words) {
  const line = document.getElementById("banner");
  line.hidden = words[0] === null;
  fill(line, words);
}

// The token that a service asks for where it listens on more than its own machine. It comes in the address behind #,
// which no server sees, or is asked for. It is kept for as long as the tab is open.

import { button, el, fill } from "./dom.js";

const KEY = "ictrl-token";
let token = null;
let asking = null;

/** Take the token out of the address, so that it is not copied along with it. */
export function tokenFromAddress() {
  const found = location.hash.match(/^#\/?token=(.*)$/);
  if (found !== null) {
    keep(decoded(found[1]));
    history.replaceState(null, "", `${location.pathname}${location.search}#/try`);
  } else {
    try {
      token = sessionStorage.getItem(KEY);
    } catch {
      token = null;
    }
  }
}

/** What a request carries. */
export const authorization = () => (token ? { Authorization: `Bearer ${token}` } : {});

/** The token that is in use: a refused one is only asked for anew if nobody has given another meanwhile. */
export const currentToken = () => token;

/** Ask for it; resolves once it was given. Everybody who waits waits for the same dialog. */
export function askForToken() {
  asking ??= new Promise(resolve => open(resolve)).finally(() => (asking = null));
  return asking;
}

/** Somebody who opens such an address in a tab that shows the page already means that token. */
addEventListener("hashchange", () => {
  if (!/^#\/?token=/.test(location.hash)) return;
  tokenFromAddress();
  location.reload();
});

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function keep(given) {
  token = given;
  try {
    sessionStorage.setItem(KEY, given);
  } catch {
    /* then it is asked for again after a reload */
  }
}

function open(resolve) {
  const input = el("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true });
  const refused = token
    ? el("p", { class: "notice wrong", role: "alert" }, "The server refused this token.")
    : null;
  const form = el("form", { method: "dialog", class: "stack" });
  fill(
    form,
    el("h2", { id: "token-title" }, "This server asks for a token"),
    el("p", {}, "It was printed when the server was started: the address with #token= at its end holds it."),
    refused,
    el("label", { for: "token" }, "Token"),
    input,
    el("div", { class: "row end" }, button("Continue", { kind: "first", type: "submit" })),
  );
  const dialog = el("dialog", { "aria-labelledby": "token-title", id: "token-dialog" }, form);
  dialog.addEventListener("cancel", event => event.preventDefault()); // there is nothing to see without it
  dialog.addEventListener("close", () => {
    keep(input.value.trim());
    dialog.remove();
    resolve();
  });
  document.body.append(dialog);
  dialog.showModal();
  input.focus();
}

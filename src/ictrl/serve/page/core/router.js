// Views by what stands behind # in the address: #/try, #/classes, #/classes/NAME, #/gallery, #/teach, #/versions.

const views = new Map();
let leave = null;

/** A view is a function that fills an element and may return what is to be done when it is left. */
export const view = (name, title, show) => views.set(name, { title, show });

/** Where a class has its page. */
export const classAddress = name => `#/classes/${encodeURIComponent(name)}`;

export const go = address => (location.hash = address);

export function start() {
  addEventListener("hashchange", () => open(true));
  open(false);
}

/** Draw the present view again. */
export const redraw = () => open(false);

function open(moved) {
  const [, name, ...rest] = location.hash.split("/");
  const found = views.has(name) ? name : "try";
  const { title, show } = views.get(found);
  const main = document.createElement("div"); // what listens to a view goes with it
  main.className = `view view-${found}`;
  leave?.();
  document.getElementById("main").replaceChildren(main);
  document.title = `${title} · ictrl`;
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.closest("nav") === null) continue;
    if (link.dataset.view === found) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  leave = show(main, decode(rest.join("/"))) ?? null;
  if (moved) {
    scrollTo({ top: 0, behavior: "instant" });
    const heading = main.querySelector("h1");
    heading?.setAttribute("tabindex", "-1");
    heading?.focus({ preventScroll: true });
  }
}

function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

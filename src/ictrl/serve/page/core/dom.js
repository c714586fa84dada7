// Elements without markup: whatever a name contains, it becomes text.

/** An element with attributes, listeners (`onclick`) and children; children may be nested, null and false are left out. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (key === "value") element.value = value;
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...present(children));
  return element;
}

/** Put other children into an element. */
export function fill(parent, ...children) {
  parent.replaceChildren(...present(children));
  return parent;
}

const present = children =>
  children.flat(Infinity).filter(child => child !== null && child !== undefined && child !== false);

const LONG = 60; // characters

/** A class's name: in its own direction of writing, broken where it is too long. */
export function named(name) {
  const long = name.length > LONG;
  return el("bdi", { class: long ? "name long" : "name", title: long ? name : null }, name);
}

/** Names in a sentence: a, b and c. */
export function listed(names, most = 6) {
  const shown = names.slice(0, most).map(named);
  if (names.length > most) shown.push(`${names.length - most} more`);
  return shown.flatMap((name, i) => (i === 0 ? [name] : [i === shown.length - 1 ? " and " : ", ", name]));
}

const SVG = "http://www.w3.org/2000/svg";

/** One of the drawings at the end of index.html. */
export function icon(name) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("aria-hidden", "true");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#i-${name}`);
  svg.append(use);
  return svg;
}

/** A button; its words are its name, also where only the drawing shows. */
export function button(words, { drawing = null, kind = "", onlyDrawing = false, label = null, ...rest } = {}) {
  const inside = onlyDrawing ? el("span", { class: "hidden" }, words) : words;
  const looks = onlyDrawing ? "icon-button" : `button ${kind}`;
  return el(
    "button",
    { type: "button", class: `${looks} ${onlyDrawing ? kind : ""}`.trim(), "aria-label": label, ...rest },
    drawing && icon(drawing),
    inside,
  );
}

/** Show as much of something as a share of 1 says, through the style sheet's `--share`. */
export function share(element, value) {
  element.style.setProperty("--share", String(Math.min(1, Math.max(0, value))));
  return element;
}

// The classes at a glance: names, each with a picture from memory where the learner can draw.

import { askPictures, inPath } from "../core/api.js";
import { el, named } from "../core/dom.js";
import { learner } from "../core/learner.js";
import { classAddress } from "../core/router.js";
import { drawn } from "./picture.js";

const SHOWN = 16;

export function chips(classes) {
  const rest = classes.length - SHOWN;
  return el(
    "ul",
    { class: "chips" },
    classes.slice(0, SHOWN).map(({ name }) => el("li", {}, chip(name))),
    rest > 0 && el("li", {}, el("a", { class: "chip", href: "#/classes" }, `${rest} more`)),
  );
}

function chip(name) {
  const link = el("a", { class: "chip", href: classAddress(name) }, named(name));
  if (learner().can.draw) {
    const place = el("span", { class: "blank" });
    link.prepend(place);
    askPictures(`classes/${inPath(name)}/samples?n=1&seed=0`).then(
      ([picture]) => place.replaceWith(drawn(picture, "")),
      () => place.remove(), // the name alone will do
    );
  }
  return link;
}

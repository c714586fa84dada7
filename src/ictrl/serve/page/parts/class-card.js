// A card per class, with a few pictures as memory replays them.

import { el, named } from "../core/dom.js";
import { classAddress } from "../core/router.js";
import { facts } from "./facts.js";
import { strip } from "./strip.js";

const FEW = 5;

/** `seed` chooses the pictures; null where the learner cannot draw. */
export function classCard(one, seed) {
  const link = el("a", { href: classAddress(one.name), class: "stretched" }, named(one.name));
  const pictures = seed !== null && strip(one.name, { few: FEW, seed });
  const card = el("li", { class: "card class-card" }, pictures, el("h2", {}, link), facts(one));
  card.dataset.name = one.name;
  return card;
}

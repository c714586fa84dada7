// A card per class, with a few pictures as memory replays them. They are drawn once the card comes into sight.

import { askPictures, inPath } from "../core/api.js";
import { el, fill, named } from "../core/dom.js";
import { classAddress } from "../core/router.js";
import { facts } from "./facts.js";
import { drawn } from "./picture.js";

const FEW = 5;
const AHEAD = "200px"; // of coming into sight

/** `seed` chooses the pictures; null where the learner cannot draw. */
export function classCard(one, seed) {
  const strip = seed === null ? null : el("div", { class: "strip", "aria-hidden": "true" });
  const link = el("a", { href: classAddress(one.name), class: "stretched" }, named(one.name));
  const card = el("li", { class: "card class-card" }, strip, el("h2", {}, link), facts(one));
  card.dataset.name = one.name;
  if (strip) {
    fill(strip, Array.from({ length: FEW }, () => el("div", { class: "blank" })));
    whenSeen(card, () => draw(strip, one.name, seed));
  }
  return card;
}

async function draw(strip, name, seed) {
  try {
    const pictures = await askPictures(`classes/${inPath(name)}/samples?n=${FEW}&seed=${seed}`);
    fill(strip, pictures.map(picture => drawn(picture, "")));
  } catch (error) {
    fill(strip, el("p", { class: "quiet" }, error.message));
  }
}

function whenSeen(element, act) {
  const watch = new IntersectionObserver(
    entries => {
      if (!entries.some(entry => entry.isIntersecting)) return;
      watch.disconnect();
      act();
    },
    { rootMargin: AHEAD },
  );
  watch.observe(element);
}

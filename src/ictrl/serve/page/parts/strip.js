// A few pictures of a class side by side, drawn once they come into sight.

import { askPictures, inPath } from "../core/api.js";
import { el, fill } from "../core/dom.js";
import { drawn } from "./picture.js";

const AHEAD = "200px"; // of coming into sight

/** `seed` chooses the pictures; `of` is an earlier learner that is to draw them; `words` are for those who cannot see. */
export function strip(name, { few, seed, of = null, words = null }) {
  const named = words === null ? { "aria-hidden": "true" } : { role: "img", "aria-label": words };
  const row = el("div", { class: "strip", ...named });
  fill(row, Array.from({ length: few }, () => el("div", { class: "blank" })));
  whenSeen(row, async () => {
    const path = `classes/${inPath(name)}/samples?n=${few}&seed=${seed}${of === null ? "" : `&of=${inPath(of)}`}`;
    try {
      fill(row, (await askPictures(path)).map(picture => drawn(picture, "")));
    } catch (error) {
      row.removeAttribute("role");
      row.removeAttribute("aria-hidden");
      fill(row, el("p", { class: "quiet" }, error.message));
    }
  });
  return row;
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

// Gallery: every class as memory draws it, a row each.

import { button, el, fill, named } from "../core/dom.js";
import { learner, onChange } from "../core/learner.js";
import { classAddress } from "../core/router.js";
import { announce } from "../core/say.js";
import { strip } from "../parts/strip.js";

const EACH = 10;

export function showGallery(main) {
  let seed = 0;
  const rows = el("ul", { class: "pictures-of", "aria-label": "Pictures of every class" });
  const cannot = el("p", { class: "notice" });
  const again = button("Draw all again", {
    drawing: "again",
    onclick: () => {
      seed += 1;
      arrange();
      announce("Drawn again.");
    },
  });
  fill(
    main,
    el("h1", {}, "Gallery"),
    el("p", { class: "lead" }, "Every class as memory draws it. None of these is a picture that it was shown."),
    cannot,
    again,
    rows,
  );

  function arrange() {
    const { classes, can } = learner();
    const shows = can.draw && classes.length > 0;
    again.hidden = !shows;
    cannot.hidden = shows;
    fill(
      cannot,
      classes.length === 0
        ? ["It knows no class yet. ", el("a", { href: "#/teach" }, "Teach it the first"), "."]
        : "This learner cannot draw.",
    );
    fill(rows, shows && classes.map(({ name }) => row(name, seed)));
  }

  arrange();
  return onChange(arrange);
}

const row = (name, seed) =>
  el(
    "li",
    {},
    el("p", {}, el("strong", {}, el("a", { href: classAddress(name) }, named(name)))),
    strip(name, { few: EACH, seed, words: `${EACH} replayed pictures of ${name}` }),
  );

// A class as it was drawn before: after earlier tasks of the run, by kept versions, and now, below each other.

import { askJson, inPath } from "../core/api.js";
import { button, el, fill } from "../core/dom.js";
import { announce } from "../core/say.js";
import { capital, minute } from "../core/words.js";
import { strip } from "./strip.js";

const FEW = 5;

/** Shows itself only where there is something earlier to show. */
export function earlier(name) {
  let seed = 0;
  const rows = el("ol", { class: "pictures-of" });
  const again = button("Draw these again", {
    drawing: "again",
    onclick: () => {
      seed += 1;
      draw();
      announce("Drawn again.");
    },
  });
  const section = el(
    "section",
    { class: "card", "aria-labelledby": "earlier-title", hidden: true },
    el("div", { class: "row apart" }, el("h2", { id: "earlier-title" }, "As it was drawn before"), again),
    el("p", { class: "quiet" }, "From the same random numbers each time: what changes is the learner."),
    rows,
  );
  let found = [];

  function draw() {
    const now = { id: null, what: "now", at: null };
    fill(rows, [...found, now].map(one => row(name, one, seed)));
  }

  askJson(`classes/${inPath(name)}/earlier`)
    .then(answer => {
      found = answer.earlier;
      section.hidden = found.length === 0;
      if (found.length) draw();
    })
    .catch(error => {
      section.hidden = false;
      again.hidden = true;
      fill(rows, el("li", { class: "notice wrong" }, error.message));
    });
  return section;
}

function row(name, { id, what, at }, seed) {
  const title = el("strong", {}, el("bdi", {}, capital(what)));
  const words = `${FEW} pictures of ${name}, drawn ${what}`;
  return el(
    "li",
    {},
    el("p", {}, title, at !== null && el("time", { datetime: at, class: "quiet" }, minute(at))),
    strip(name, { few: FEW, seed, of: id, words }),
  );
}

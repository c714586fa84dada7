// What the learner makes of one picture: its class, and how near all the others are.

import { el, fill, named } from "../core/dom.js";
import { inHundred, percent } from "../core/words.js";
import { bars } from "./bars.js";
import { captioned, drawn, pictureOf } from "./picture.js";

/** A place for the answer about a file, which is shown at once. */
export function result(file) {
  const { frame, free } = pictureOf(file, "");
  const said = el("div", { class: "said" });
  const views = el("div", { class: "views" }, captioned(frame, "The picture"));
  const item = el("li", { class: "card result", "aria-label": file.name }, views, said);
  let words = "";

  function wait() {
    item.setAttribute("aria-busy", "true");
    fill(said, el("p", { class: "quiet pulse" }, "Looking …"));
  }

  function show(prediction, rate) {
    item.removeAttribute("aria-busy");
    const { class: name, probability, unknown, classes, seen, reconstruction } = prediction;
    words = `${file.name}: ${unknown ? `unknown, nearest ${name}` : name}.`;
    fill(
      views,
      captioned(frame, "The picture"),
      seen && captioned(drawn(seen, ""), "What it sees"),
      reconstruction && captioned(drawn(reconstruction, ""), "From memory"),
    );
    fill(
      said,
      el("p", { class: "file quiet" }, named(file.name)),
      unknown ? strange(classes[0].class, rate) : verdict(name, probability),
      bars(classes),
    );
  }

  function fail(message) {
    item.removeAttribute("aria-busy");
    words = `${file.name}: ${message}`;
    fill(said, el("p", { class: "file quiet" }, named(file.name)), el("p", { class: "notice wrong" }, message));
  }

  wait();
  return { file, item, wait, show, fail, free, words: () => words };
}

const verdict = (name, probability) =>
  el(
    "p",
    { class: "verdict" },
    el("strong", {}, named(name)),
    probability === null ? null : el("span", { class: "sure" }, percent(probability)),
  );

const strange = (nearest, rate) => [
  el("p", { class: "verdict unknown" }, el("strong", {}, "Unknown")),
  el(
    "p",
    { class: "why" },
    "It looks like none of its classes; the nearest is ",
    named(nearest),
    `. Of pictures of known classes, about ${inHundred(rate)} are called unknown too. If it were one of them:`,
  ),
];

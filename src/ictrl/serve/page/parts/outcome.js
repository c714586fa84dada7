// What came of a teaching: the new classes, likeness to old ones, every class before and after, and the way back.

import { button, el, fill, listed, named, share } from "../core/dom.js";
import { learner } from "../core/learner.js";
import { classAddress } from "../core/router.js";
import { announce } from "../core/say.js";
import { dismiss } from "../core/teaching.js";
import { emptyTray } from "../core/tray.js";
import { capital, counted, duration, percent, points } from "../core/words.js";
import { goBackTo } from "./go-back.js";

export function outcome(place, state) {
  const title = el("h2", { tabindex: "-1" });
  const again = button("Teach another", { kind: "first", drawing: "teach", onclick: dismiss });
  const card = el("section", { class: "card outcome", "aria-live": "polite" });
  if (state.phase === "done") done(card, title, again, state);
  else {
    const cancelled = state.phase === "cancelled";
    fill(title, cancelled ? "Cancelled" : "It did not work");
    again.lastChild.textContent = "Back to the pictures";
    fill(
      card,
      title,
      cancelled ? null : el("p", { class: "notice wrong" }, state.error),
      el("p", {}, "The learner is as it was."),
      el("div", { class: "row" }, again),
    );
  }
  fill(place, card);
  title.focus({ preventScroll: false });
  announce(title.textContent);
}

function done(card, title, again, { taught, accuracy, accuracy_of: measured, seconds, from, version }) {
  fill(title, "Learned ", listed(taught.map(({ name }) => name)));
  const undo = button("Undo", {
    drawing: "undo",
    onclick: async () => {
      undo.disabled = true;
      if (await goBackTo(from)) {
        emptyTray();
        dismiss();
      } else undo.disabled = false;
    },
  });
  const can = from !== null && from !== undefined && from !== version && learner().version === version;
  fill(
    card,
    title,
    el("ul", { class: "taught" }, taught.map(one => newcomer(one))),
    taught.filter(({ likeness }) => likeness).map(warning),
    comparison(accuracy ?? [], taught),
    measured && el("p", { class: "quiet" }, of(measured)),
    el("p", { class: "quiet" }, `It took ${duration(seconds)}. This is version ${version}.`),
    el("div", { class: "row" }, again, can && undo),
  );
}

const newcomer = ({ name, images, held_out: held, accuracy }) =>
  el(
    "li",
    {},
    el("a", { href: classAddress(name) }, named(name)),
    `: ${counted(images, "picture")} learned`,
    accuracy === null ? "." : [", ", el("strong", {}, percent(accuracy)), ` of ${held} held out recognised.`],
  );

const warning = ({ name, likeness }) =>
  el(
    "p",
    { class: "notice warn" },
    el("strong", {}, named(name), " looks like ", named(likeness.name)),
    `: ${likeness.reason}. If both are the same, undo this.`,
  );

/** What the comparison is of, in the service's words. */
function of(measured) {
  const nothing = measured.match(/^nothing: (.*)$/);
  if (!nothing) return `${capital(measured)}.`;
  return [
    `The other classes could not be measured again: ${nothing[1].split(";")[0]}. What was measured when each was taught stands under `,
    el("a", { href: "#/classes" }, "Classes"),
    ".",
  ];
}

/** Every class before and after: a bar for now, a mark for before. */
function comparison(rows, taught) {
  if (rows.every(({ before, after }) => before === null && after === null)) return null;
  const fresh = new Set(taught.map(({ name }) => name));
  const cells = rows.map(({ class: name, before, after }) => {
    const meter = el("div", { class: "meter" });
    if (after !== null) share(meter, after);
    if (before !== null) meter.append(share(el("i", { class: "mark" }), before));
    const change = before === null || after === null ? "" : points(before, after);
    return el(
      "tr",
      { class: fresh.has(name) ? "fresh" : null },
      el("th", { scope: "row" }, named(name), fresh.has(name) && el("span", { class: "badge" }, "new")),
      el("td", { class: "bar-cell", "aria-hidden": "true" }, meter),
      el("td", { class: "number" }, before === null ? "–" : percent(before)),
      el("td", { class: "number" }, after === null ? "–" : percent(after)),
      el("td", { class: `number ${change.startsWith("−") ? "less" : ""}` }, change),
    );
  });
  return el(
    "table",
    { class: "bars compared" },
    el("caption", {}, "Recognised, class by class: the bar is now, the mark before"),
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Class"), el("td", { "aria-hidden": "true" }), ["Before", "Now", "Points"].map(word => el("th", { scope: "col", class: "number" }, word)))),
    el("tbody", {}, cells),
  );
}

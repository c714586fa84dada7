// What is noted of a class: since when, from how many pictures, how well it is told and on what that was measured.

import { el } from "../core/dom.js";
import { counted, day, minute, percent } from "../core/words.js";

/** As a list of terms; what nobody noted is left out. */
export function facts({ since, images, accuracy, tested, measured_on: on, among }) {
  const terms = [];
  if (since) terms.push(["Known since", el("time", { datetime: since, title: minute(since) }, day(since))]);
  if (images !== null) terms.push(["Learned from", counted(images, "picture")]);
  if (accuracy !== null) terms.push(["Recognised", [el("strong", {}, percent(accuracy)), ` ${measured(tested, on, among)}`]]);
  if (terms.length === 0) return el("p", { class: "quiet" }, "Nothing was noted when it was learned.");
  return el("dl", { class: "facts" }, terms.map(([term, value]) => el("div", {}, el("dt", {}, term), el("dd", {}, value))));
}

function measured(tested, on, among) {
  const what = tested === null ? (on ?? "") : `${tested.toLocaleString("en")} ${on ?? "pictures"}`;
  const others = among === null ? "" : `, among ${counted(among, "class", "classes")}`;
  return what ? `of ${what}${others}` : others.slice(2);
}

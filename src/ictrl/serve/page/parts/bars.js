// A bar per class, the nearest first: how probable it is, or how far away where the learner tells no probabilities.

import { button, el, named, share } from "../core/dom.js";
import { counted, distance, percent } from "../core/words.js";

const FEW = 5;

export function bars(classes) {
  const probable = classes[0].probability !== null;
  const distances = classes.map(other => other.distance);
  const [nearest, farthest] = [Math.min(...distances), Math.max(...distances)];
  const length = other => (probable ? other.probability : nearness(other.distance, nearest, farthest));
  const rows = classes.map((other, i) =>
    el(
      "tr",
      { hidden: i >= FEW, class: i === 0 ? "first" : null },
      el("th", { scope: "row" }, named(other.class)),
      el("td", { class: "bar-cell", "aria-hidden": "true" }, share(el("div", { class: "meter" }), length(other))),
      probable && el("td", { class: "number" }, percent(other.probability)),
      el("td", { class: "number quiet" }, distance(other.distance)),
    ),
  );
  const table = el(
    "table",
    { class: "bars" },
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        el("th", { scope: "col" }, "Class"),
        el("td", { "aria-hidden": "true" }, probable ? "" : "the longer, the nearer"),
        probable && el("th", { scope: "col", class: "number" }, "Probability"),
        el("th", { scope: "col", class: "number", title: "How badly the class explains the picture" }, "Distance"),
      ),
    ),
    el("tbody", {}, rows),
  );
  return classes.length > FEW ? [table, more(rows)] : [table];
}

const nearness = (value, nearest, farthest) =>
  farthest > nearest ? Math.max(0.02, (farthest - value) / (farthest - nearest)) : 1;

function more(rows) {
  const closed = `All ${counted(rows.length, "class", "classes")}`;
  const toggle = button(closed, {
    kind: "quiet-button",
    "aria-expanded": "false",
    onclick: () => {
      const open = toggle.getAttribute("aria-expanded") !== "true";
      toggle.setAttribute("aria-expanded", String(open));
      toggle.textContent = open ? "Fewer" : closed;
      rows.forEach((row, i) => (row.hidden = !open && i >= FEW));
    },
  });
  return toggle;
}

// A map of few classes: a table whose cells are coloured, so that it can be read and heard as well.

import { el, named, share } from "../core/dom.js";

const LEGIBLE = 10; // classes, up to which there is room for numbers

export function heatTable({ classes, kind, matrix, alike }) {
  const few = classes.length <= LEGIBLE;
  const head = classes.map(name => el("th", { scope: "col" }, el("span", { title: name }, named(name))));
  const rows = classes.map((name, i) => el("tr", {}, el("th", { scope: "row", title: name }, named(name)), matrix[i].map((value, j) => cell(i, j, value))));

  function cell(i, j, value) {
    if (i === j) return el("td", { class: "self" }, el("span", { class: "hidden" }, "itself"));
    const words = el("span", { class: few ? null : "hidden" }, value.toFixed(2));
    const title = `${classes[i]}, ${classes[j]}: ${value.toFixed(3)}`;
    return share(el("td", { title }, words), alike[i][j]);
  }

  return el(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": `Map: ${kind}` },
    el("table", { class: `heat ${few ? "few" : ""}` }, el("caption", { class: "hidden" }, kind), el("thead", {}, el("tr", {}, el("td"), head)), el("tbody", {}, rows)),
  );
}

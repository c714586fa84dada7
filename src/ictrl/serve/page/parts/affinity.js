// How alike the classes are: a map of all, and the nearest of one.

import { askJson } from "../core/api.js";
import { button, el, fill, named, share } from "../core/dom.js";
import { learner } from "../core/learner.js";
import { classAddress } from "../core/router.js";
import { capital } from "../core/words.js";
import { heatPicture } from "./heat-picture.js";
import { heatTable } from "./heat-table.js";

const FITS = 24; // classes, up to which each one has a row that can be read
const NEAREST = 5;

/** The map of all classes, once there are two. */
export async function affinity(place) {
  const { can, classes } = learner();
  if (!can.compare || classes.length < 2) return fill(place);
  const body = el("div", { "aria-busy": "true" }, el("p", { class: "quiet pulse" }, "Comparing …"));
  fill(place, section("How alike they are", body));
  try {
    const found = scaled(await askJson("affinity"));
    const table = () => (found.classes.length <= FITS ? heatTable(found) : nearestTable(found));
    fill(
      body,
      el("p", { class: "quiet" }, `${capital(found.kind)}: the stronger the colour, the more alike two classes are.`),
      found.classes.length <= FITS ? table() : [heatPicture(found), asTable(table)],
    );
  } catch (error) {
    fill(body, el("p", { class: "notice wrong" }, error.message));
  }
  body.removeAttribute("aria-busy");
  return place;
}

/** The classes most like one. */
export function nearest(name) {
  const body = el("div");
  if (learner().classes.length < 2) return null;
  askJson("affinity").then(
    answer => {
      const found = scaled(answer);
      const row = found.classes.indexOf(name);
      if (row < 0) return;
      const rows = others(found, row).map(({ name: other, value, alike }) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, el("a", { href: classAddress(other) }, named(other))),
          el("td", { class: "bar-cell", "aria-hidden": "true" }, share(el("div", { class: "meter" }), alike)),
          el("td", { class: "number" }, value.toFixed(2)),
        ),
      );
      fill(
        body,
        el("p", { class: "quiet" }, `${capital(found.kind)}: the longer the bar, the more alike.`),
        el(
          "table",
          { class: "bars nearest" },
          el("thead", { class: "hidden" }, el("tr", {}, el("th", { scope: "col" }, "Class"), el("td"), el("th", { scope: "col" }, found.kind))),
          el("tbody", {}, rows),
        ),
      );
    },
    error => fill(body, el("p", { class: "notice wrong" }, error.message)),
  );
  return section("Most like it", body);
}

/** With `alike` from 0 to 1 for each pair, whether the measure grows or falls with likeness; null on the diagonal. */
function scaled({ classes, kind, matrix }) {
  const sign = kind.startsWith("distance") ? -1 : 1;
  const between = matrix.flatMap((row, i) => row.filter((_, j) => i !== j));
  const [least, most] = [Math.min(...between.map(v => sign * v)), Math.max(...between.map(v => sign * v))];
  const scale = value => (most > least ? (sign * value - least) / (most - least) : 0.5);
  const alike = matrix.map((row, i) => row.map((value, j) => (i === j ? null : scale(value))));
  return { classes, kind, matrix, alike };
}

const others = ({ classes, matrix, alike }, row) =>
  classes
    .map((name, j) => ({ name, value: matrix[row][j], alike: alike[row][j] }))
    .filter((_, j) => j !== row)
    .sort((a, b) => b.alike - a.alike)
    .slice(0, NEAREST);

const nearestTable = found =>
  el(
    "table",
    { class: "plain" },
    el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Class"), el("th", { scope: "col" }, "Most like it"))),
    el(
      "tbody",
      {},
      found.classes.map((name, i) =>
        el(
          "tr",
          {},
          el("th", { scope: "row" }, named(name)),
          el("td", {}, others(found, i).slice(0, 3).map(({ name: other, value }, k) => [k ? ", " : "", named(other), ` ${value.toFixed(2)}`])),
        ),
      ),
    ),
  );

function asTable(make) {
  const place = el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "The nearest of each class" });
  const toggle = button("As a table", {
    "aria-expanded": "false",
    onclick: () => {
      const open = toggle.getAttribute("aria-expanded") !== "true";
      toggle.setAttribute("aria-expanded", String(open));
      fill(place, open && make());
      place.hidden = !open;
    },
  });
  place.hidden = true;
  return el("div", { class: "stack" }, el("div", {}, toggle), place);
}

const section = (title, body) => el("section", { class: "affinity", "aria-label": title }, el("h2", {}, title), body);

// Classes: what the learner knows, as cards, and how alike they are; #/classes/NAME is the page of one.

import { button, el, fill } from "../core/dom.js";
import { learner, onChange } from "../core/learner.js";
import { counted } from "../core/words.js";
import { classCard } from "../parts/class-card.js";
import { classPage } from "../parts/class-page.js";
import { affinity } from "../parts/affinity.js";

const MANY = 12; // classes, from which on a search is of use

export function showClasses(main, name) {
  return name ? classPage(main, name) : overview(main);
}

function overview(main) {
  let seed = 0;
  const cards = el("ul", { class: "cards" });
  const search = el("input", { type: "search", id: "search", placeholder: "Name", oninput: () => filter() });
  const found = el("p", { class: "quiet", role: "status" });
  const searching = el("div", { class: "field" }, el("label", { for: "search" }, "Search"), search);
  const again = button("Draw all again", {
    drawing: "again",
    onclick: () => {
      seed += 1;
      arrange();
    },
  });
  const cannot = el("p", { class: "notice" });
  const map = el("div");
  fill(
    main,
    el("h1", {}, "What it knows"),
    el("p", { class: "lead" }, "Its classes: since when it knows them, from how many pictures, and how well it recognises them."),
    cannot,
    el("div", { class: "row apart" }, searching, again),
    found,
    cards,
    map,
  );

  function filter() {
    const wanted = search.value.trim().toLocaleLowerCase();
    let shown = 0;
    for (const card of cards.children) {
      card.hidden = !card.dataset.name.toLocaleLowerCase().includes(wanted);
      shown += !card.hidden;
    }
    found.textContent = wanted ? `${counted(shown, "class", "classes")} found` : "";
  }

  function arrange() {
    const { classes, can } = learner();
    searching.hidden = classes.length < MANY;
    again.hidden = !can.draw || classes.length === 0;
    cannot.hidden = can.draw && classes.length > 0;
    fill(
      cannot,
      classes.length === 0
        ? ["It knows no class yet. ", el("a", { href: "#/teach" }, "Teach it the first"), "."]
        : "This learner cannot draw: there are no replayed pictures and no sliders.",
    );
    fill(cards, classes.map(one => classCard(one, can.draw ? seed : null)));
    filter();
    affinity(map);
  }

  arrange();
  return onChange(arrange);
}

// The page of one class: its replayed pictures, the directions in which it varies, how it was drawn before, its
// nearest, and forgetting it.

import { askPictures, inPath } from "../core/api.js";
import { button, el, fill, named } from "../core/dom.js";
import { learner, onChange } from "../core/learner.js";
import { announce } from "../core/say.js";
import { nearest } from "./affinity.js";
import { earlier } from "./earlier.js";
import { facts } from "./facts.js";
import { confirmForgetting } from "./forget.js";
import { drawn } from "./picture.js";
import { sliders } from "./sliders.js";

const MANY = 16;

export function classPage(main, name) {
  const one = learner().classes.find(other => other.name === name);
  const back = el("p", { class: "back" }, el("a", { href: "#/classes" }, "← All classes"));
  if (one === undefined) {
    fill(main, back, el("h1", {}, "No such class"), el("p", {}, "It does not know ", named(name), "."));
    return onChange(({ classes }) => classes.some(other => other.name === name) && location.reload());
  }
  const { can } = learner();
  const missing = [
    !can.draw && "draw: there are no replayed pictures and no sliders",
    !can.forget && "forget a class",
  ].filter(Boolean);
  fill(
    main,
    back,
    el("h1", {}, named(name)),
    facts(one),
    missing.length > 0 && el("p", { class: "notice" }, `This learner cannot ${missing.join(", nor ")}.`),
    el(
      "div",
      { class: "columns" },
      can.draw && replayed(name),
      can.draw && can.directions && sliders(name),
    ),
    can.draw && earlier(name),
    can.compare && nearest(name),
    can.forget && forgetting(name),
  );
  return onChange(({ classes }) => {
    if (!classes.some(other => other.name === name)) location.hash = "#/classes";
  });
}

function replayed(name) {
  let seed = 0;
  const grid = el("div", { class: "replayed", role: "img", "aria-label": `${MANY} replayed pictures of ${name}` });
  fill(grid, Array.from({ length: MANY }, () => el("div", { class: "blank" })));
  const again = button("Draw again", {
    drawing: "again",
    onclick: () => {
      seed += 1;
      draw().then(() => announce("Drawn again."));
    },
  });

  async function draw() {
    grid.setAttribute("aria-busy", "true");
    try {
      const pictures = await askPictures(`classes/${inPath(name)}/samples?n=${MANY}&seed=${seed}`);
      fill(grid, pictures.map(picture => drawn(picture, "")));
    } catch (error) {
      fill(grid, el("p", { class: "notice wrong" }, error.message));
    }
    grid.removeAttribute("aria-busy");
  }

  draw();
  return el(
    "section",
    { class: "card", "aria-labelledby": "replayed-title" },
    el("div", { class: "row apart" }, el("h2", { id: "replayed-title" }, "Replayed pictures"), again),
    el("p", { class: "quiet" }, "Drawn from memory. None of them is a picture that it was shown."),
    grid,
  );
}

const forgetting = name =>
  el(
    "section",
    { class: "forgetting", "aria-labelledby": "forget-title" },
    el("h2", { id: "forget-title" }, "Forget"),
    el("p", {}, "What memory keeps of the class is removed, and it is never predicted again."),
    button("Forget this class …", { kind: "danger", onclick: () => confirmForgetting(name) }),
  );

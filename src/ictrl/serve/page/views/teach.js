// Teach: collect pictures of new classes, let the learner learn, see what came of it.

import { button, el, fill } from "../core/dom.js";
import { byFolder, mayBePicture } from "../core/files.js";
import { learner, onChange } from "../core/learner.js";
import { announce, complain } from "../core/say.js";
import { onTeaching, teach, teaching } from "../core/teaching.js";
import { addClass, emptyTray, leastPictures, onTray, problemWith, tray } from "../core/tray.js";
import { counted, percent } from "../core/words.js";
import { droppable, dropzone } from "../parts/dropzone.js";
import { newClass } from "../parts/new-class.js";
import { outcome } from "../parts/outcome.js";
import { progress } from "../parts/progress.js";
import { byCamera } from "../parts/burst.js";

const SHARES = [0, 0.1, 0.2, 0.3];

export function showTeach(main) {
  const { can, held_out: usual } = learner();
  const lead = el("p", { class: "lead" });
  const place = el("div");
  fill(main, el("h1", {}, "Teach it something new"), lead, place);
  if (!can.learn) {
    fill(lead, "This learner can only predict here: the server was started with --read-only, or the learner was saved without what learning needs.");
    return null;
  }
  fill(lead, "It learns new classes from their pictures alone.");

  let heldOut = SHARES.includes(usual) ? usual : 0.2;
  let left = () => {};
  let phase = null;

  function arrange(state) {
    const kind = ["sending", "learning"].includes(state.phase) ? "busy" : state.phase;
    if (kind === phase) return; // what is shown follows by itself
    phase = kind;
    left();
    left = () => {};
    if (kind === "busy") left = progress(place);
    else if (kind === "idle") left = collect();
    else outcome(place, state);
  }

  function collect() {
    const cards = new Map();
    const list = el("ul", { class: "new-classes", "aria-label": "New classes" });
    const problem = el("p", { class: "notice wrong", role: "alert", hidden: true });
    const zone = dropzone({
      title: "Drop a folder of pictures",
      hint: "Each folder becomes a class and is named after it. Several at once are several classes.",
      take,
      folders: true,
      more: [button("Use the camera", { drawing: "camera", onclick: () => byCamera(null) })],
    });
    const share = el(
      "select",
      { id: "held-out", "aria-describedby": "held-out-why", onchange: event => ((heldOut = Number(event.target.value)), check()) },
      [...new Set([...SHARES, usual])].sort().map(value =>
        el("option", { value, selected: value === heldOut }, value ? percent(value) : "none"),
      ),
    );
    const go = button("Learn", { kind: "first large-button", drawing: "teach", onclick: begin });
    const total = el("p", { class: "quiet", role: "status" });
    const foot = el(
      "div",
      { class: "card begin" },
      el("div", { class: "row" }, go, button("Remove all", { onclick: emptyTray }), total),
      el(
        "div",
        { class: "field" },
        el("div", { class: "row tight" }, el("label", { for: "held-out" }, "Held out to measure on"), share),
        el("p", { class: "quiet", id: "held-out-why" }, "Not learned from: how many of them it recognises says how well it learned."),
      ),
      problem,
    );
    const steps = hints(learner().least_images, heldOut);
    const body = droppable(el("div", { class: "stack" }, zone, steps, list, foot), take);
    fill(place, body);

    function take(found) {
      problem.hidden = true;
      const pictures = found.filter(({ file }) => mayBePicture(file));
      const others = found.filter(({ file }) => !mayBePicture(file));
      for (const [name, files] of byFolder(pictures)) addClass(name, files);
      if (others.length) {
        const shown = others.slice(0, 5).map(({ file }) => file.name).join(", ");
        complain(new Error(`Left out, no ${others.length === 1 ? "picture" : "pictures"}: ${shown}${others.length > 5 ? ` and ${others.length - 5} more` : ""}.`));
      }
      announce(`${counted(pictures.length, "picture")} added.`);
    }

    function redraw(classes) {
      for (const [id, card] of cards) {
        if (classes.some(one => one.id === id)) continue;
        card.item.remove();
        card.free();
        cards.delete(id);
      }
      for (const one of classes) {
        if (!cards.has(one.id)) {
          cards.set(one.id, newClass(one.id, () => problemOf(one.id), check));
          list.append(cards.get(one.id).item);
        }
        cards.get(one.id).show(one, heldOut);
      }
      zone.classList.toggle("small", classes.length > 0);
      foot.hidden = classes.length === 0;
      steps.hidden = classes.length > 0;
      check();
    }

    const problemOf = id => {
      const one = tray().find(other => other.id === id);
      const known = learner().classes.map(({ name }) => name);
      return one && problemWith(one, { known, least: learner().least_images, heldOut });
    };

    function check() {
      for (const one of tray()) cards.get(one.id)?.show(one, heldOut);
      const pictures = tray().reduce((sum, one) => sum + one.files.length, 0);
      total.textContent = `${counted(tray().length, "new class", "new classes")}, ${counted(pictures, "picture")}`;
    }

    async function begin() {
      const wrong = tray().find(one => problemOf(one.id) !== null);
      if (wrong) return cards.get(wrong.id).insist();
      problem.hidden = true;
      const classes = new Map(tray().map(one => [one.name.normalize("NFC").trim(), one.files.map(({ file }) => file)]));
      try {
        await teach(classes, heldOut);
        if (teaching().phase === "done") emptyTray();
      } catch (error) {
        // what was shown has changed back meanwhile
        complain(error);
      }
    }

    redraw(tray());
    const stops = [onTray(redraw), onChange(check)];
    return () => {
      stops.forEach(stop => stop());
      for (const card of cards.values()) card.free();
    };
  }

  arrange(teaching());
  const stop = onTeaching(arrange);
  return () => {
    stop();
    left();
  };
}

/** What to know before the first picture. */
const hints = (least, heldOut) =>
  el(
    "ul",
    { class: "hints" },
    [
      [`At least ${leastPictures(least, heldOut)} pictures of a class`, `${least} to learn from, and ${leastPictures(least, heldOut) - least} held out to see how well it did. More are better.`],
      ["Only what is new", "The old classes need not be shown again: memory keeps what it needs of them."],
      ["Nothing is final", "You can cancel while it learns, and go back to the version before."],
    ].map(([title, words]) => el("li", {}, el("strong", {}, title), el("span", { class: "quiet" }, words))),
  );

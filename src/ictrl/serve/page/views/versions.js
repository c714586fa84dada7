// Versions: what was taught and forgotten when, and the way back.

import { askJson } from "../core/api.js";
import { button, el, fill, listed } from "../core/dom.js";
import { onChange } from "../core/learner.js";
import { counted, minute } from "../core/words.js";
import { goBackTo } from "../parts/go-back.js";

export function showVersions(main) {
  const list = el("ol", { class: "versions", "aria-label": "Versions, the latest first" });
  const problem = el("p", { class: "notice wrong", role: "alert", hidden: true });
  fill(
    main,
    el("h1", {}, "Versions"),
    el("p", { class: "lead" }, "Each teaching and each forgetting makes a new version. The last ones are kept: you can go back to any of them, and forward again."),
    problem,
    list,
  );

  async function draw() {
    try {
      const { versions } = await askJson("versions");
      fill(list, versions.map((one, i) => row(one, versions[i + 1])));
      problem.hidden = true;
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
    }
  }

  draw();
  return onChange(draw);
}

function row({ version, at, what, classes, current }, before) {
  const label = `Go back to version ${version}`;
  return el(
    "li",
    { class: `version ${current ? "current" : ""}`, "aria-current": current ? "true" : null },
    el(
      "div",
      { class: "version-words" },
      el("p", { class: "version-what" }, el("span", { class: "version-number" }, version), el("strong", {}, el("bdi", {}, what))),
      el("p", { class: "quiet" }, el("time", { datetime: at }, minute(at)), ` · ${counted(classes.length, "class", "classes")}`, change(what, classes, before)),
    ),
    current
      ? el("span", { class: "badge" }, "In use")
      : button("Go back", { "aria-label": label, onclick: event => use(event.target, version) }),
  );
}

async function use(pressed, version) {
  pressed.disabled = true;
  await goBackTo(version);
  pressed.disabled = false;
}

/** What a version knows more, and less, than the one before it, unless that was said already. */
function change(said, classes, before) {
  if (!before) return null;
  const more = classes.filter(name => !before.classes.includes(name) && !said.includes(name));
  const less = before.classes.filter(name => !classes.includes(name) && !said.includes(name));
  return [more.length > 0 && [" · with ", listed(more, 4)], less.length > 0 && [" · without ", listed(less, 4)]];
}

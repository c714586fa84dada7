// Forgetting a class: what that means, said before; what may remain, said after; and what of the kept versions.

import { askJson, inPath } from "../core/api.js";
import { button, el, fill, named } from "../core/dom.js";
import { learner, refresh } from "../core/learner.js";
import { announce } from "../core/say.js";
import { counted } from "../core/words.js";
import { goBackTo } from "./go-back.js";

export async function confirmForgetting(name) {
  const before = learner().version;
  const keeps = await versionsWith(name);
  const keep = choice("keep", "Keep them", "It can be undone for as long as they are kept.", true);
  const remove = choice("remove", "Remove them too", "Then no kept version brings the class back. If this is a run, its own checkpoints still can.", false);
  const problem = el("p", { class: "notice wrong", role: "alert", hidden: true });
  const yes = button("Forget", { kind: "danger", onclick: act });
  const no = button("Cancel", { onclick: () => dialog.close() });
  const body = el("div", { class: "stack" });
  const dialog = el("dialog", { "aria-labelledby": "forgetting-title" }, body);
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (learner().classes.every(other => other.name !== name)) location.hash = "#/classes";
  });
  fill(
    body,
    el("h2", { id: "forgetting-title" }, "Forget ", named(name), "?"),
    el("p", {}, "What memory keeps of it is removed, and it is never predicted again. ", "Networks stay as they were trained: traces of the class may remain in their weights."),
    el(
      "fieldset",
      {},
      el("legend", {}, keeps === null ? "Versions that still know it" : `${counted(keeps, "kept version")} that still ${keeps === 1 ? "knows" : "know"} it`),
      keep.row,
      remove.row,
    ),
    problem,
    el("div", { class: "row end" }, no, yes),
  );
  document.body.append(dialog);
  dialog.showModal();
  no.focus();

  async function act() {
    yes.disabled = no.disabled = true;
    const versions = remove.input.checked ? "remove" : "keep";
    try {
      const done = await askJson(`classes/${inPath(name)}?versions=${versions}`, { method: "DELETE" });
      await refresh();
      forgotten(body, dialog, name, done, versions === "keep" ? before : null);
      announce(`${name} is forgotten.`);
    } catch (error) {
      problem.textContent = error.message;
      problem.hidden = false;
      yes.disabled = no.disabled = false;
    }
  }
}

function forgotten(body, dialog, name, { remains }, before) {
  const close = button("Close", { kind: "first", onclick: () => dialog.close() });
  const undo = button("Undo", {
    drawing: "undo",
    onclick: async () => {
      undo.disabled = true;
      if (await goBackTo(before)) dialog.close();
      undo.disabled = false;
    },
  });
  fill(
    body,
    el("h2", { id: "forgetting-title" }, "Forgotten: ", named(name)),
    el("p", {}, "What may remain of it:"),
    el("ul", { class: "remains" }, remains.map(trace => el("li", {}, trace))),
    el("div", { class: "row end" }, before === null ? null : undo, close),
  );
  close.focus();
}

function choice(value, title, words, checked) {
  const input = el("input", { type: "radio", name: "versions", value, checked });
  return { input, row: el("label", { class: "choice" }, input, el("span", {}, el("strong", {}, title), el("br"), el("span", { class: "quiet" }, words))) };
}

async function versionsWith(name) {
  try {
    const { versions } = await askJson("versions");
    return versions.filter(({ classes }) => classes.includes(name)).length;
  } catch {
    return null;
  }
}

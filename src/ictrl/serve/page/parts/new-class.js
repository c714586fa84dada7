// A class that is about to be taught: its name, its pictures, and what is still missing.

import { button, el, fill } from "../core/dom.js";
import { mayBePicture } from "../core/files.js";
import { addPictures, heldOutCount, removeClass, removePicture, rename } from "../core/tray.js";
import { counted } from "../core/words.js";
import { byCamera } from "./burst.js";
import { droppable, picker } from "./dropzone.js";
import { pictureOf } from "./picture.js";

const SHOWN = 60; // pictures, until all are asked for

/** `problem` says what is wrong with it; `changed` is called while its name is typed. */
export function newClass(id, problem, changed) {
  const thumbs = new Map();
  let all = false;
  let one = null;
  let share = 0;
  const key = `class-${id}`;
  const input = el("input", {
    id: key,
    type: "text",
    dir: "auto",
    autocomplete: "off",
    maxlength: "200",
    "aria-describedby": `${key}-state`,
    oninput: () => {
      rename(id, input.value);
      changed();
    },
  });
  const state = el("p", { id: `${key}-state`, class: "state", role: "status" });
  const grid = el("ul", { class: "thumbs", "aria-label": "Pictures" });
  const take = found => addPictures(id, found.map(({ file }) => file).filter(mayBePicture));
  const files = picker(take, { multiple: true, accept: "image/*,.tif,.tiff,.heic", "aria-label": "Further pictures" });
  const everything = button("", { kind: "quiet-button", onclick: () => ((all = true), draw()) });
  const item = el(
    "li",
    { class: "card new-class" },
    el(
      "div",
      { class: "row apart" },
      el("div", { class: "field grow" }, el("label", { for: key }, "Name of the class"), input),
      button("Remove this class", { drawing: "close", onlyDrawing: true, onclick: () => removeClass(id) }),
    ),
    state,
    grid,
    everything,
    el(
      "div",
      { class: "row" },
      button("More pictures", { drawing: "upload", onclick: () => files.click() }),
      button("From the camera", { drawing: "camera", onclick: () => byCamera(id) }),
    ),
    files,
  );
  droppable(item, take);

  function show(now, heldOut) {
    const same = one?.files === now.files;
    [one, share] = [now, heldOut];
    if (document.activeElement !== input) input.value = one.name;
    if (!same) draw();
    tell();
  }

  function draw() {
    const wanted = all ? one.files : one.files.slice(0, SHOWN);
    for (const [picture, thumb] of thumbs) {
      if (wanted.some(file => file.id === picture)) continue;
      thumb.item.remove();
      thumb.free();
      thumbs.delete(picture);
    }
    for (const { id: picture, file } of wanted) {
      if (thumbs.has(picture)) continue;
      const { frame, free } = pictureOf(file, file.name);
      const remove = button(`Remove ${file.name}`, { drawing: "close", onlyDrawing: true, onclick: () => drop(picture) });
      thumbs.set(picture, { item: el("li", {}, frame, remove), free, remove });
      grid.append(thumbs.get(picture).item);
    }
    everything.hidden = wanted.length === one.files.length;
    everything.textContent = `Show all ${one.files.length}`;
  }

  function drop(picture) {
    const order = [...thumbs.keys()];
    const next = order[order.indexOf(picture) + 1] ?? order[order.indexOf(picture) - 1];
    removePicture(id, picture);
    (thumbs.get(next)?.remove ?? input).focus(); // the keyboard stays where it was
  }

  function tell() {
    const wrong = problem();
    const held = heldOutCount(one.files.length, share);
    const learned = one.files.length - held;
    const words = `${counted(one.files.length, "picture")}: ${learned} to learn from, ${held} held out.`;
    item.classList.toggle("ready", wrong === null);
    input.setAttribute("aria-invalid", String(wrong?.field === "name" && input.value !== ""));
    const text = wrong ? `${words} ${wrong.words}` : `${words} Ready.`;
    if (state.textContent !== text) fill(state, `${words} `, el("strong", {}, wrong ? wrong.words : "Ready."));
  }

  /** Show what is wrong to who wants to go on. */
  function insist() {
    item.classList.add("insisted");
    const field = problem().field === "name" ? input : item.querySelector(".row:last-of-type button");
    item.scrollIntoView({ block: "nearest" });
    field.focus();
  }

  const free = () => thumbs.forEach(thumb => thumb.free());
  return { item, show, insist, free };
}

// A place to drop files on, which is a button too.

import { button, el } from "../core/dom.js";
import { chosen, transferred } from "../core/files.js";
import { complain } from "../core/say.js";

/**
 * A drop zone. `take` gets [{path, file}]. Whoever cannot drop presses one of the buttons: files, and a folder where
 * `folders` is set; `more` are further buttons.
 */
export function dropzone({ title, hint, take, drawing = "upload", folders = false, more = [] }) {
  const input = picker(take, { multiple: true, accept: "image/*,.tif,.tiff,.heic", "aria-label": "Pictures" });
  const folder = folders && picker(take, { webkitdirectory: true, "aria-label": "Folder of pictures" });
  const zone = el(
    "div",
    { class: "dropzone", role: "group", "aria-label": title },
    el("p", { class: "dropzone-title" }, title),
    el("p", { class: "quiet" }, hint),
    el(
      "div",
      { class: "row centre" },
      button("Choose pictures", { drawing, kind: "first", onclick: () => input.click() }),
      folder && button("Choose a folder", { drawing: "folder", onclick: () => folder.click() }),
      more,
    ),
    input,
    folder,
  );
  zone.addEventListener("click", event => event.target.closest("button, input") ?? input.click());
  return droppable(zone, take);
}

/** Let files be dropped on an element. */
export function droppable(zone, take) {
  let depth = 0; // enter and leave come for every element within
  const over = inside => zone.classList.toggle("over", inside);
  zone.addEventListener("dragenter", event => {
    event.preventDefault();
    over(++depth > 0);
  });
  zone.addEventListener("dragleave", () => over((depth = Math.max(0, depth - 1)) > 0));
  zone.addEventListener("dragover", event => event.preventDefault());
  zone.addEventListener("drop", () => over((depth = 0) > 0), true); // also where something within takes it
  zone.addEventListener("drop", async event => {
    event.preventDefault();
    event.stopPropagation();
    try {
      const found = await transferred(event.dataTransfer);
      if (found.length === 0) throw new Error("Nothing that was dropped is a file: save the picture first, then drop that.");
      take(found);
    } catch (error) {
      complain(error);
    }
  });
  return zone;
}

/** The browser's own dialog for files. */
export function picker(take, attributes) {
  const input = el("input", { type: "file", class: "picker", tabindex: "-1", ...attributes });
  input.addEventListener("change", () => {
    const files = chosen(input);
    input.value = ""; // the same file may be chosen again
    if (files.length) take(files);
  });
  return input;
}

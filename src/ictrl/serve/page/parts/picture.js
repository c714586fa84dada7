// Pictures: those of files, and those that the service draws, which are tiny and stay crisp.

import { el } from "../core/dom.js";

/** A picture that the service sent, as a data address. */
export const drawn = (address, alt) =>
  el("img", { class: "crisp", src: address, alt, draggable: "false", decoding: "async" });

/** A picture of a file, while it is looked at; `free` lets go of it. Files that no browser shows have their name. */
export function pictureOf(file, alt) {
  const address = URL.createObjectURL(file);
  const image = el("img", { src: address, alt, draggable: "false", decoding: "async" });
  const frame = el("div", { class: "frame" }, image);
  image.addEventListener("load", () => frame.classList.toggle("tiny", image.naturalWidth <= 64));
  image.addEventListener("error", () => {
    frame.classList.add("unseen");
    frame.replaceChildren(el("span", {}, file.name));
  });
  return { frame, free: () => URL.revokeObjectURL(address) };
}

/** A picture with its words below. */
export const captioned = (picture, words) => el("figure", { class: "shown" }, picture, el("figcaption", {}, words));

/** The file behind a data address, without a request. */
export function fileOf(address, name) {
  const [head, body] = address.split(",");
  const bytes = Uint8Array.from(atob(body), letter => letter.charCodeAt(0));
  return new File([bytes], name, { type: head.slice(5).split(";")[0] });
}

// What stands around every view: which learner this is, and that it is being taught.

import { el, fill } from "../core/dom.js";
import { onChange } from "../core/learner.js";
import { onTeaching } from "../core/teaching.js";
import { counted } from "../core/words.js";

export function showFrame() {
  // a file that misses every place for files would be opened instead of the page
  for (const kind of ["dragover", "drop"]) addEventListener(kind, event => event.preventDefault());
  // a link would change the address, which says what is shown
  document.getElementById("skip").addEventListener("click", event => {
    event.preventDefault();
    document.getElementById("main").focus();
  });
  onChange(facts => {
    const { version, classes, method, recipe, image_size: side, channels } = facts;
    fill(
      document.getElementById("learner"),
      el("strong", {}, counted(classes.length, "class", "classes")),
      ` · version ${version}`,
    );
    fill(
      document.getElementById("about"),
      "A learner by the method ",
      el("strong", {}, method),
      recipe ? ` (${recipe})` : "",
      ` that sees ${side} × ${side} pixels ${channels === 1 ? "in grey" : "in colour"}. `,
      "Pictures that you show it are not stored.",
    );
  });
  onTeaching(({ phase }) => {
    const busy = phase === "sending" || phase === "learning";
    document.getElementById("teaching-dot").hidden = !busy;
    document.querySelector('nav a[data-view="teach"] span').textContent = busy ? "Teaching …" : "Teach";
  });
}

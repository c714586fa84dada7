// How far teaching is, wherever it was begun.

import { button, el, fill, listed } from "../core/dom.js";
import { complain } from "../core/say.js";
import { cancel, onTeaching, teaching } from "../core/teaching.js";
import { duration } from "../core/words.js";

/** Returns how to stop following it. */
export function progress(place) {
  const title = el("h2", { id: "progress-title", tabindex: "-1" });
  const bar = el("progress", { max: 1, "aria-labelledby": "progress-title" });
  const words = el("p", { class: "quiet" });
  const stop = button("Cancel", { onclick: () => cancel().catch(complain) });
  fill(
    place,
    el(
      "section",
      { class: "card learning", "aria-labelledby": "progress-title" },
      title,
      bar,
      words,
      el("p", {}, "Nothing is changed before the end. You can leave this page: it goes on."),
      el("div", { class: "row" }, stop),
    ),
  );

  function show({ phase, classes, epoch, epochs, seconds, cancelling }) {
    if (phase !== "sending" && phase !== "learning") return;
    const names = Object.keys(classes ?? {});
    fill(title, phase === "sending" ? "Sending pictures of " : "Learning ", listed(names));
    if (epochs) bar.value = epoch / epochs;
    else bar.removeAttribute("value");
    words.textContent = cancelling ? "Stopping …" : phase === "sending" ? "" : sofar(epoch, epochs, seconds);
    stop.disabled = Boolean(cancelling);
  }

  show(teaching());
  title.focus();
  return onTeaching(show);
}

function sofar(epoch, epochs, seconds) {
  if (!epochs) return "Preparing …";
  const left = epoch > 0 ? (seconds / epoch) * (epochs - epoch) : null;
  const rest = left === null || epoch === epochs ? "" : `, about ${duration(left)} left`;
  return `Epoch ${epoch} of ${epochs}, ${duration(seconds ?? 0)}${rest}`;
}

// Sliders along the directions in which a class varies: the picture in memory's middle, moved away from it.

import { ask, askJson, inPath } from "../core/api.js";
import { button, el, fill } from "../core/dom.js";
import { latest } from "../core/latest.js";

const SHOWN = 6; // the widest
const REACH = 3; // standard deviations
const STEP = 0.1;

export function sliders(name) {
  const picture = el("img", { class: "crisp large", alt: `${name}, drawn where the sliders are`, draggable: "false" });
  const note = el("p", { class: "notice wrong", role: "alert", hidden: true });
  const controls = el("div", { class: "sliders" });
  const rows = [];
  let more = null;

  const draw = latest(async () => {
    try {
      const at = rows.map(({ input }) => input.value);
      while (at.length > 1 && Number(at.at(-1)) === 0) at.pop();
      const response = await ask(`classes/${inPath(name)}/picture?at=${at.join(",")}`);
      const address = URL.createObjectURL(await response.blob());
      const former = picture.src;
      picture.src = address;
      await picture.decode().catch(() => {});
      if (former) URL.revokeObjectURL(former);
      note.hidden = true;
    } catch (error) {
      note.textContent = error.message;
      note.hidden = false;
    }
  });

  function set(values) {
    rows.forEach(({ input, tell }, i) => {
      input.value = String(values(i));
      tell();
    });
    draw();
  }

  function add({ index, sigma }) {
    const row = slider(index, sigma, draw);
    rows.push(row);
    controls.append(row.label);
  }

  async function build() {
    try {
      const { directions } = await askJson(`classes/${inPath(name)}/directions`);
      directions.slice(0, SHOWN).forEach(add);
      const rest = directions.slice(SHOWN, 4 * SHOWN);
      if (rest.length) {
        more = button(`${rest.length} narrower ones`, {
          kind: "quiet-button",
          onclick: () => {
            rest.forEach(add);
            rows[SHOWN].input.focus();
            more.remove();
          },
        });
        controls.after(more);
      }
      draw();
    } catch (error) {
      note.textContent = error.message;
      note.hidden = false;
    }
  }

  build();
  return el(
    "section",
    { class: "card", "aria-labelledby": "sliders-title" },
    el(
      "div",
      { class: "row apart" },
      el("h2", { id: "sliders-title" }, "How it varies"),
      el(
        "div",
        { class: "row tight" },
        button("At random", { onclick: () => set(() => random().toFixed(1)) }),
        button("Middle", { onclick: () => set(() => 0) }),
      ),
    ),
    el("p", { class: "quiet" }, "Each slider is a direction in which the class varies, the widest first."),
    el("div", { class: "vary" }, picture, el("div", {}, controls)),
    note,
  );
}

function slider(index, sigma, draw) {
  const value = el("output", { class: "number" });
  const input = el("input", { type: "range", min: -REACH, max: REACH, step: STEP, value: 0 });
  const tell = () => {
    const sigmas = Number(input.value);
    const words = `${sigmas > 0 ? "+" : sigmas < 0 ? "−" : ""}${Math.abs(sigmas).toFixed(1)}`;
    fill(value, words, el("span", { "aria-hidden": "true" }, " σ"));
    input.setAttribute("aria-valuetext", `${words} standard deviations`);
  };
  input.addEventListener("input", () => {
    tell();
    draw();
  });
  tell();
  const title = `σ = ${sigma.toPrecision(2)}`;
  return { input, tell, label: el("label", { class: "slider", title }, el("span", {}, `Direction ${index + 1}`), input, value) };
}

/** Normal, but within reach. */
function random() {
  const normal = Math.sqrt(-2 * Math.log(1 - Math.random())) * Math.cos(2 * Math.PI * Math.random());
  return Math.min(REACH, Math.max(-REACH, normal));
}

// A map of many classes: a pixel per pair, and a line that says which pair is pointed at.

import { el, fill, named } from "../core/dom.js";

export function heatPicture({ classes, kind, matrix, alike }) {
  const k = classes.length;
  const canvas = el("canvas", { class: "crisp heat-picture", width: k, height: k, role: "img", "aria-label": `Map: ${kind} of ${k} classes. The table below says the nearest of each.` });
  const brush = canvas.getContext("2d");
  const pointed = el("p", { class: "quiet pointed" }, "Point at the map to see which two classes meet there.");
  const image = brush.createImageData(k, k);
  requestAnimationFrame(() => {
    // the style sheet's colour, in light or in dark; the page shines through as much as two classes are unlike
    const [r, g, b] = getComputedStyle(canvas).color.match(/[\d.]+/g).map(Number);
    alike.forEach((row, i) =>
      row.forEach((value, j) => image.data.set([r, g, b, value === null ? 0 : Math.round(15 + 240 * value)], 4 * (i * k + j))),
    );
    brush.putImageData(image, 0, 0);
  });
  canvas.addEventListener("pointermove", event => {
    const { left, top, width, height } = canvas.getBoundingClientRect();
    const at = (offset, size) => Math.min(k - 1, Math.max(0, Math.floor((offset / size) * k)));
    const [i, j] = [at(event.clientY - top, height), at(event.clientX - left, width)];
    fill(pointed, named(classes[i]), i === j ? "" : [" and ", named(classes[j]), `: ${matrix[i][j].toFixed(2)}`]);
  });
  return el("div", {}, canvas, pointed);
}

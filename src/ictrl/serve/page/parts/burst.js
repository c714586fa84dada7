// Pictures of a new class, or of one that is being collected, from the camera.

import { learner } from "../core/learner.js";
import { addClass, addPictures, tray } from "../core/tray.js";
import { openCamera } from "./camera.js";

const BURST = 20; // pictures at a press

/** `id` is the class in the tray; null makes a new one with the first picture. */
export function byCamera(id) {
  let target = id;
  return openCamera({
    title: "Pictures of the new class",
    burst: BURST,
    side: learner().image_size,
    take: file => {
      if (target === null) {
        addClass("", [file]);
        target = tray().at(-1).id;
      } else addPictures(target, [file]);
    },
  });
}

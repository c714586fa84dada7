// The camera, in a dialog: one picture, or a burst of them after a countdown. What is taken is the square in the middle,
// as it is shown.

import { button, el, fill, icon } from "../core/dom.js";
import { announce } from "../core/say.js";
import { counted } from "../core/words.js";

const COUNT_FROM = 3;
const BEAT = 700; // milliseconds between numbers
const EVERY = 200; // milliseconds between pictures of a burst
const LEAST_SIDE = 256;

/** Why there is no camera, or null. */
export function whyNoCamera() {
  if (navigator.mediaDevices?.getUserMedia) return null;
  if (!isSecureContext) return "Browsers lend the camera only to pages over https or on this machine itself.";
  return "This browser has no camera to lend.";
}

/** A button that opens the camera, where there may be one; otherwise it says why not when it is pressed. */
export const cameraButton = open => button("Use the camera", { drawing: "camera", onclick: open });

/**
 * Show what the camera sees. `take` gets each picture as a File as it is taken; `burst` is how many at a press, after a
 * countdown, or 0 for one at once. `side` is what the network sees.
 */
export async function openCamera({ title, take, burst = 0, side = 0 }) {
  const video = el("video", { playsinline: true, muted: true, "aria-label": "What the camera sees" });
  video.muted = true;
  const count = el("output", { class: "countdown", "aria-live": "assertive" });
  const note = el("p", { class: "quiet", role: "status" }, "Asking for the camera …");
  const shutter = button(burst ? `Take ${burst} pictures` : "Take the picture", { kind: "first", drawing: "camera" });
  const done = button("Done", { onclick: () => dialog.close() });
  const dialog = el(
    "dialog",
    { class: "camera", "aria-labelledby": "camera-title" },
    el("div", { class: "row apart" }, el("h2", { id: "camera-title" }, title), closing(() => dialog.close())),
    el("div", { class: "viewfinder" }, video, count),
    note,
    el("div", { class: "row end" }, done, shutter),
  );
  shutter.disabled = true;
  let open = true;
  let stream = null;
  dialog.addEventListener("close", () => {
    open = false;
    for (const track of stream?.getTracks() ?? []) track.stop();
    dialog.remove();
  });
  document.body.append(dialog);
  dialog.showModal();

  const missing = whyNoCamera();
  try {
    if (missing) throw new Error(missing);
    stream = await navigator.mediaDevices.getUserMedia({ video: { facingMode: "environment" }, audio: false });
    if (!open) return stream.getTracks().forEach(track => track.stop());
    video.srcObject = stream;
    await video.play();
  } catch (error) {
    const reason = REASONS[error.name] ?? error.message;
    if (open) fill(note, icon("close"), ` No camera: ${reason}`);
    return;
  }
  note.textContent = burst ? "Move the thing a little while pictures are taken: other sides, other distances." : "";
  shutter.disabled = false;
  shutter.focus();
  let taken = 0;

  async function one() {
    take(await photograph(video, Math.max(LEAST_SIDE, 2 * side), `camera-${Date.now()}-${taken + 1}.jpg`));
    taken += 1;
  }

  shutter.addEventListener("click", async () => {
    if (!burst) {
      await one();
      return dialog.close();
    }
    shutter.disabled = true;
    for (let n = COUNT_FROM; n > 0 && open; n--) {
      count.textContent = n;
      await pause(BEAT);
    }
    count.textContent = "";
    for (let i = 0; i < burst && open; i++) {
      await one();
      note.textContent = `${counted(taken, "picture")} taken`;
      await pause(EVERY);
    }
    if (!open) return;
    shutter.disabled = false;
    announce(`${counted(taken, "picture")} taken`);
    done.focus();
  });
}

const REASONS = {
  NotAllowedError: "the browser was told not to lend it. Allow it in the browser's settings for this page.",
  NotFoundError: "none is connected.",
  NotReadableError: "something else uses it.",
};

const pause = milliseconds => new Promise(resolve => setTimeout(resolve, milliseconds));

const closing = onclick => button("Close", { drawing: "close", onlyDrawing: true, onclick });

/** The square in the middle of what the camera sees, as a file. */
async function photograph(video, side, name) {
  const { videoWidth: width, videoHeight: height } = video;
  const square = Math.min(width, height);
  const canvas = el("canvas", { width: side, height: side });
  const brush = canvas.getContext("2d");
  brush.imageSmoothingQuality = "high";
  brush.drawImage(video, (width - square) / 2, (height - square) / 2, square, square, 0, 0, side, side);
  const blob = await new Promise(resolve => canvas.toBlob(resolve, "image/jpeg", 0.92));
  return new File([blob], name, { type: "image/jpeg" });
}

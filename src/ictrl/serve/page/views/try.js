// Try: what the learner makes of pictures.

import { askJson, askPictures, inPath } from "../core/api.js";
import { button, el, fill, named } from "../core/dom.js";
import { mayBePicture, transferred } from "../core/files.js";
import { learner, onChange } from "../core/learner.js";
import { reduced } from "../core/reduce.js";
import { announce, complain } from "../core/say.js";
import { counted, inHundred } from "../core/words.js";
import { cameraButton, openCamera } from "../parts/camera.js";
import { chips } from "../parts/chips.js";
import { droppable, dropzone } from "../parts/dropzone.js";
import { fileOf } from "../parts/picture.js";
import { result } from "../parts/result.js";

const AT_ONCE = 8; // pictures in a request
const AGAIN = [500, 1000, 2000, 4000]; // milliseconds to wait where the service is busy
const TOO_MUCH = [0, 413];
const RATES = [0.01, 0.05, 0.1, 0.2];

let shown = []; // the latest first; kept while other views are looked at
let falseAlarms = 0.05;
let told = null; // the version that told them
let arrange = () => {}; // them in the view that is looked at

export function showTry(main) {
  const unread = el("div", { class: "stack", role: "alert" });
  const results = el("ol", { class: "results", "aria-label": "Results" });
  const heading = el("h2");
  const top = el("div", { class: "row apart results-top" }, heading, rates(), clearing(), missing());
  const zone = dropzone({
    title: "Drop pictures here",
    hint: "or paste one. As many at once as you like.",
    take: files => predict(files.map(({ file }) => file)),
    more: [
      cameraButton(() => openCamera({ title: "Take a picture", side: learner().image_size, take: file => predict([file]) })),
      learner().can.draw &&
        button("One from its memory", { drawing: "memory", onclick: () => imagined().catch(complain) }),
    ],
  });
  const known = el("div", { class: "known" });
  fill(
    main,
    el("h1", {}, "What does it see?"),
    el("p", { class: "lead" }, "Show it pictures: it says which of its classes each is, and how sure it is."),
    zone,
    unread,
    top,
    results,
    known,
  );

  function describe() {
    const { classes, version } = learner();
    if (shown.length && told !== version && classes.length) askAgain(); // it may know more by now
    zone.hidden = classes.length === 0;
    const none = el("p", { class: "notice" }, "It knows no class yet. ", el("a", { href: "#/teach" }, "Teach it the first"), ".");
    fill(known, classes.length ? [el("h2", {}, "What it knows"), chips(classes)] : none);
  }

  arrange = () => {
    zone.classList.toggle("small", shown.length > 0);
    known.hidden = shown.length > 0;
    fill(results, shown.map(({ item }) => item));
    top.hidden = shown.length === 0;
    heading.textContent = counted(shown.length, "picture");
  };

  function clearing() {
    const clear = () => {
      for (const one of shown) one.free();
      shown = [];
      arrange();
      fill(unread);
      main.querySelector("button").focus();
    };
    return button("Clear", { onclick: clear });
  }

  function missing() {
    const { draw, probabilities } = learner().can;
    const lacks = [!draw && "draw: there are no reconstructions", !probabilities && "tell probabilities: there are distances alone"];
    const words = lacks.filter(Boolean).join(", nor ");
    return words && el("p", { class: "quiet missing" }, `This learner cannot ${words}.`);
  }

  function rates() {
    if (!learner().can.unknown) return null;
    const choice = el(
      "select",
      { id: "rate", onchange: event => changeRate(Number(event.target.value)) },
      RATES.map(rate => el("option", { value: rate, selected: rate === falseAlarms }, inHundred(rate))),
    );
    return el("span", { class: "row tight" }, el("label", { for: "rate" }, "False alarms"), choice);
  }

  function changeRate(rate) {
    falseAlarms = rate;
    askAgain();
  }

  function askAgain() {
    for (const one of shown) one.wait();
    ask(shown);
  }

  async function predict(files) {
    if (learner().classes.length === 0) return;
    const pictures = files.filter(mayBePicture);
    tellUnread(files.filter(file => !mayBePicture(file)).map(file => ({ name: file.name, why: "no picture" })));
    const fresh = pictures.map(file => result(file));
    shown = [...fresh, ...shown];
    arrange();
    await ask(fresh);
  }

  async function ask(asked) {
    const broken = [];
    told = learner().version;
    for (let i = 0; i < asked.length; i += AT_ONCE) broken.push(...(await askFor(asked.slice(i, i + AT_ONCE))));
    shown = shown.filter(one => !broken.some(other => other.one === one));
    for (const { one } of broken) one.free();
    tellUnread(broken);
    arrange();
    const words = asked.filter(one => shown.includes(one)).map(one => one.words());
    if (words.length) announce(words.length > 5 ? `${counted(words.length, "picture")} done.` : words.join(" "));
  }

  /** Those that could not be read. */
  async function askFor(some) {
    try {
      const { predictions } = await predictionsOf(some.map(one => one.file));
      return some.flatMap((one, i) => {
        const { error } = predictions[i];
        if (error) return [{ one, name: one.file.name, why: error }];
        one.show(predictions[i], falseAlarms);
        return [];
      });
    } catch (error) {
      if (some.length > 1 && TOO_MUCH.includes(error.status)) {
        return (await Promise.all(some.map(one => askFor([one])))).flat(); // one of them is: not all
      }
      for (const one of some) one.fail(error.message);
      return [];
    }
  }

  function tellUnread(files) {
    if (files.length === 0) return;
    const inWords = files.flatMap(({ name, why }, i) => [i ? "; " : "", named(name), `: ${why}`]);
    fill(unread, el("p", { class: "notice wrong" }, `${counted(files.length, "file")} could not be read: `, inWords));
  }

  async function imagined() {
    const { classes } = learner();
    const { name } = classes[Math.floor(Math.random() * classes.length)];
    const seed = Math.floor(Math.random() * 2 ** 31);
    const [address] = await askPictures(`classes/${inPath(name)}/samples?n=1&seed=${seed}`);
    await predict([fileOf(address, `${name} from memory.png`)]);
  }

  const pasted = async event => {
    const found = await transferred(event.clipboardData);
    if (found.length) predict(found.map(({ file }) => file));
  };
  const whole = document.body;
  droppable(main, found => predict(found.map(({ file }) => file)));
  whole.addEventListener("paste", pasted);
  const stop = onChange(describe);
  describe();
  arrange();
  return () => {
    stop();
    whole.removeEventListener("paste", pasted);
  };
}

/** What the service says of some pictures; it is asked again where it is busy. */
async function predictionsOf(files) {
  const { can, image_size: side } = learner();
  const query = new URLSearchParams();
  if (can.draw) query.set("reconstruct", "1");
  if (can.unknown) query.set("unknown", String(falseAlarms));
  const sent = await Promise.all(files.map(file => reduced(file, side)));
  const body = new FormData();
  sent.forEach((file, i) => body.append("picture", file, files[i].name));
  for (let attempt = 0; ; attempt++) {
    try {
      return await askJson(`predict?${query}`, { method: "POST", body });
    } catch (error) {
      if (error.body?.predictions) return error.body; // none could be read, each for its own reason
      if (error.status !== 503 || attempt === AGAIN.length) throw error;
      await new Promise(resolve => setTimeout(resolve, AGAIN[attempt]));
    }
  }
}

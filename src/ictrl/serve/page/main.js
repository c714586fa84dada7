// The explorer: what `ictrl serve` shows to a person. Reading order: main → core/router → views → parts → core.

import { complain } from "./core/say.js";
import { keepWatch, learner, onChange, refresh } from "./core/learner.js";
import { start, view } from "./core/router.js";
import { teachingAtStart } from "./core/teaching.js";
import { tokenFromAddress } from "./core/token.js";
import { showFrame } from "./parts/frame.js";
import { showClasses } from "./views/classes.js";
import { showGallery } from "./views/gallery.js";
import { showTeach } from "./views/teach.js";
import { showTry } from "./views/try.js";
import { showVersions } from "./views/versions.js";

view("try", "Try", showTry);
view("classes", "Classes", showClasses);
view("gallery", "Gallery", showGallery);
view("teach", "Teach", showTeach);
view("versions", "Versions", showVersions);

async function open() {
  tokenFromAddress();
  showFrame();
  keepWatch();
  try {
    await refresh();
    teachingAtStart();
  } catch (error) {
    if (learner() === null) return waitForServer(error);
    complain(error);
  }
  start();
}

function waitForServer(error) {
  complain(error);
  const stop = onChange(() => {
    stop();
    start();
  });
}

open();

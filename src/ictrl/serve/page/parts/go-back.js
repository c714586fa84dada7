// Going back (or forward) to a version that was kept.

import { askJson } from "../core/api.js";
import { learner, refresh } from "../core/learner.js";
import { complain, toast } from "../core/say.js";
import { counted } from "../core/words.js";

/** Whether it worked; if not, the reason was said. */
export async function goBackTo(version) {
  try {
    await askJson(`versions/${version}`, { method: "POST" });
    await refresh();
  } catch (error) {
    complain(error);
    return false;
  }
  toast(`This is version ${learner().version} again: ${counted(learner().classes.length, "class", "classes")}.`);
  return true;
}

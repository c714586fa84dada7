// Pictures that are about to be taught, by class. They stay in this tab until they are sent.

let next = 0;
let classes = []; // {id, name, files: [{id, file}]}
const listeners = new Set();

export const tray = () => classes;

/** Call this when classes come or go, with their pictures or without; returns how to stop that. */
export function onTray(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

const changed = () => listeners.forEach(listener => listener(classes));

/** A new class, or further pictures of one that has this name. */
export function addClass(name, files) {
  const there = name && classes.find(one => one.name === name);
  if (there) return addPictures(there.id, files);
  classes = [...classes, { id: next++, name, files: files.map(numbered) }];
  changed();
}

export function addPictures(id, files) {
  classes = classes.map(one => (one.id === id ? { ...one, files: [...one.files, ...files.map(numbered)] } : one));
  changed();
}

export function removePicture(id, picture) {
  classes = classes.map(one => (one.id === id ? { ...one, files: one.files.filter(file => file.id !== picture) } : one));
  changed();
}

export function removeClass(id) {
  classes = classes.filter(one => one.id !== id);
  changed();
}

/** While somebody types. */
export function rename(id, name) {
  classes.find(one => one.id === id).name = name;
}

export function emptyTray() {
  classes = [];
  changed();
}

const numbered = file => ({ id: next++, file });

/** How many of n pictures are measured on and not learned from: about that share, at least one and never all. */
export function heldOutCount(n, share) {
  return share === 0 ? 0 : Math.max(0, Math.min(Math.max(1, halfToEven(share * n)), n - 1));
}

const halfToEven = value => {
  const below = Math.floor(value);
  return value - below === 0.5 ? below + (below % 2) : Math.round(value);
};

/** How many pictures a class needs for so many to be learned from. */
export function leastPictures(least, share) {
  let pictures = least;
  while (pictures - heldOutCount(pictures, share) < least) pictures += 1;
  return pictures;
}

/** What is the matter with a class, in a sentence; null if nothing is. */
export function problemWith(one, { known, least, heldOut }) {
  const name = one.name.normalize("NFC").trim();
  if (name === "") return { field: "name", words: "Give it a name." };
  if (name === "." || name === "..") return { field: "name", words: "A class cannot be called by dots alone." };
  if (known.includes(name)) {
    return { field: "name", words: "It knows a class of this name already: choose another, or forget that one first." };
  }
  if (classes.some(other => other.id !== one.id && other.name.normalize("NFC").trim() === name)) {
    return { field: "name", words: "Two of these classes have the same name." };
  }
  const learned = one.files.length - heldOutCount(one.files.length, heldOut);
  if (learned < least) {
    const more = leastPictures(least, heldOut) - one.files.length;
    return { field: "pictures", words: `It needs ${more} more: ${least} to learn from${heldOut ? ", and those that are held out" : ""}.` };
  }
  return null;
}

// Files that somebody drops, pastes or chooses, with the folders they lie in: [{path: "cats/1.png", file}].

const PICTURE = /\.(avif|bmp|gif|heic|heif|jfif|jpe?g|png|pbm|pgm|ppm|pnm|tga|tiff?|webp)$/i;

/** Whether a file may be a picture; the service has the last word. */
export const mayBePicture = file => file.type.startsWith("image/") || (file.type === "" && PICTURE.test(file.name));

/** What systems put into folders by themselves. */
const hidden = path => /(^|\/)(\.|Thumbs\.db$|desktop\.ini$|__MACOSX(\/|$))/i.test(path);

/** Files of an <input type=file>, which tells folders only if it asks for one. */
export const chosen = input =>
  [...input.files]
    .map(file => ({ path: file.webkitRelativePath || file.name, file }))
    .filter(({ path }) => !hidden(path));

/** Files of a drop or a paste; folders are gone through. */
export async function transferred(data) {
  const entries = [...data.items].map(item => item.webkitGetAsEntry?.() ?? null);
  const files = [...data.files]; // both are gone once the event is over
  if (entries.every(entry => entry === null)) return files.map(file => ({ path: file.name, file }));
  const found = await Promise.all(entries.filter(entry => entry !== null).map(entry => within(entry, "")));
  return found.flat().filter(({ path }) => !hidden(path));
}

async function within(entry, above) {
  const path = above + entry.name;
  if (entry.isFile) return [{ path, file: await new Promise((resolve, reject) => entry.file(resolve, reject)) }];
  const reader = entry.createReader();
  const inside = [];
  for (;;) {
    const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject)); // a hundred at a time
    if (some.length === 0) break;
    inside.push(...some);
  }
  return (await Promise.all(inside.map(other => within(other, `${path}/`)))).flat();
}

/**
 * Classes by folder. A folder with files is a class, with all below it; one that only holds folders is none, but each
 * of these may be. Files in no folder belong to the class "".
 */
export function byFolder(found) {
  const holding = new Set(found.map(({ path }) => path.split("/").slice(0, -1).join("/")));
  const classes = new Map();
  for (const { path, file } of found) {
    const folders = path.split("/").slice(0, -1);
    const depth = folders.findIndex((_, i) => holding.has(folders.slice(0, i + 1).join("/")));
    const name = depth < 0 ? "" : folders[depth].normalize("NFC").trim();
    classes.set(name, [...(classes.get(name) ?? []), file]);
  }
  return classes;
}

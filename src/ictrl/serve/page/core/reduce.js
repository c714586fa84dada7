// Photographs as telephones take them have a hundred times the pixels that a network sees. Large ones are made smaller
// before they are sent, which also leaves behind where and when they were taken.

const LARGE = 1_500_000; // bytes
const SIDE = 1024; // pixels

/** The file, or a smaller picture of the same; a file that the browser cannot read goes as it is. */
export async function reduced(file, least = 256) {
  if (file.size <= LARGE) return file;
  let picture;
  try {
    picture = await createImageBitmap(file, { imageOrientation: "from-image" });
  } catch {
    return file;
  }
  const scale = Math.max(SIDE, 2 * least) / Math.max(picture.width, picture.height);
  if (scale >= 1) return file;
  const canvas = new OffscreenCanvas(Math.round(picture.width * scale), Math.round(picture.height * scale));
  const brush = canvas.getContext("2d");
  brush.imageSmoothingQuality = "high";
  brush.fillStyle = "#ffffff";
  brush.fillRect(0, 0, canvas.width, canvas.height); // what is transparent is white in training too
  brush.drawImage(picture, 0, 0, canvas.width, canvas.height);
  picture.close();
  const blob = await canvas.convertToBlob({ type: "image/jpeg", quality: 0.92 });
  return new File([blob], file.name, { type: "image/jpeg" });
}

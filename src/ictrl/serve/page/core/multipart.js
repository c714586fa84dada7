// A form of files whose part names are names of classes, whatever is in them. The browser's own FormData writes a
// quotation mark as %22, which nobody can tell from a class that is called so.

/** Body and type of such a form; parts are {name, file, filename}. */
export function form(parts) {
  const boundary = `ictrl-${crypto.getRandomValues(new Uint32Array(4)).join("")}`;
  const pieces = parts.flatMap(({ name, file, filename }) => [
    `--${boundary}\r\nContent-Disposition: form-data; name=${quoted(name)}; filename=${quoted(filename)}\r\n` +
      `Content-Type: ${file.type || "application/octet-stream"}\r\n\r\n`,
    file,
    "\r\n",
  ]);
  return {
    body: new Blob([...pieces, `--${boundary}--\r\n`]),
    headers: { "Content-Type": `multipart/form-data; boundary=${boundary}` },
  };
}

const quoted = text => `"${text.replace(/[\r\n]+/g, " ").replace(/(["\\])/g, "\\$1")}"`;

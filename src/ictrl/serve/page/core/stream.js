// Server-sent events in the answer to a POST, which the browser's EventSource cannot send.

/** Each event of an answer: {event, data}. */
export async function* events(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { done, value } = await reader.read();
    text += (value ?? "").replaceAll("\r", "");
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const found = event(text.slice(0, end));
      if (found !== null) yield found;
    }
    if (done) return;
  }
}

function event(block) {
  let name = "message";
  const data = [];
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon <= 0) continue; // a comment, which keeps the connection open
    const value = line.slice(colon + 1).replace(/^ /, "");
    if (line.slice(0, colon) === "event") name = value;
    else if (line.slice(0, colon) === "data") data.push(value);
  }
  return data.length ? { event: name, data: JSON.parse(data.join("\n")) } : null;
}

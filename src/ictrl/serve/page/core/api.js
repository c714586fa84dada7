// Requests to the service: with the token where one is needed, and with every way of going wrong in one line.

import { lost, reached } from "./connection.js";
import { askForToken, authorization, currentToken } from "./token.js";

/** The service answered, but not with what was asked for. */
export class ServiceError extends Error {
  constructor(status, message, body = null) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

/** Nobody answered. */
export class Unreachable extends Error {
  constructor() {
    super("The server does not answer.");
  }
}

/** A class's name as a part of an address. */
export const inPath = encodeURIComponent;

/** The service's answer to a request; errors are thrown. */
export async function ask(path, options = {}) {
  for (;;) {
    const used = currentToken();
    const response = await send(path, { ...options, headers: { ...options.headers, ...authorization() } });
    reached();
    if (response.status === 401) {
      if (currentToken() === used) await askForToken();
      continue;
    }
    if (response.ok) return response;
    throw await refusal(response);
  }
}

export const askJson = async (path, options) => (await ask(path, options)).json();

/** Pictures come as data addresses where JSON is asked for. */
export const askPictures = async (path, options = {}) =>
  (await askJson(path, { ...options, headers: { Accept: "application/json" } })).pictures;

async function send(path, options) {
  try {
    return await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (options.body && (await answers())) {
      // a server that refuses a body while it is still being sent closes the connection: its words do not arrive
      throw new ServiceError(0, "The server closed the connection: send fewer or smaller pictures at once.");
    }
    lost();
    throw new Unreachable();
  }
}

async function answers() {
  try {
    return (await fetch("healthz", { cache: "no-store" })).ok;
  } catch {
    return false;
  }
}

async function refusal(response) {
  let body = null;
  try {
    body = await response.json();
  } catch {
    /* not from the service itself, such as a proxy's page */
  }
  const line = body?.error ?? `The server answered ${response.status} ${response.statusText}`.trim() + ".";
  return new ServiceError(response.status, line, body);
}

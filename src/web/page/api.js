// The API of kubediff, as docs/specs/api.md has it: requests, errors, the token, the stream.

const TOKEN = "kubediff.token";

/// What went wrong, and what can be done about it.
export class Failure extends Error {
  constructor(status, code, message, remedy) {
    super(message);
    Object.assign(this, { status, code, remedy });
  }
}

export function token() {
  return sessionStorage.getItem(TOKEN);
}

export function setToken(value) {
  if (value) sessionStorage.setItem(TOKEN, value);
  else sessionStorage.removeItem(TOKEN);
}

function url(path, params) {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(params ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null) query.append(key, one);
    }
  }
  const text = query.toString();
  // Relative, so that the page also works below a path of a proxy.
  return `api/v1/${path}${text ? `?${text}` : ""}`;
}

async function request(path, params, options = {}) {
  const headers = { ...options.headers };
  if (token()) headers.Authorization = `Bearer ${token()}`;
  let answer;
  try {
    answer = await fetch(url(path, params), { headers, signal: options.signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure(0, "unreachable", "kubediff does not answer.", "Is it still running, and is the port still forwarded? This page tries again by itself.");
  }
  if (answer.ok) return answer;
  let said = {};
  try {
    said = (await answer.json()).error ?? {};
  } catch {
    // Not ours: a proxy's page, perhaps. The status says enough.
  }
  const failure = new Failure(answer.status, said.code ?? `http-${answer.status}`, said.message ?? `The server answered ${answer.status} ${answer.statusText}.`, said.remedy);
  if (answer.status === 401) document.dispatchEvent(new CustomEvent("kubediff:sign-in", { detail: failure }));
  throw failure;
}

export async function get(path, params, options) {
  return (await request(path, params, options)).json();
}

export const events = (filters, more, options) => get("events", { ...filters, ...more }, options);
export const event = (id, options) => get(`events/${encodeURIComponent(id)}`, {}, options);

/// `object` is {group, version, resource, namespace, name}, as in a row.
export function objectPath({ group, version, resource, namespace, name }) {
  return [group || "core", version, resource, namespace || "-", name].map(encodeURIComponent).join("/");
}

/// `when` is {at}, {event}, or nothing for now.
export const object = (of, when, options) => get(`objects/${objectPath(of)}`, when, options);
export const blame = (of, when, options) => get(`objects/${objectPath(of)}/blame`, when, options);
export const history = (of, more, options) => get(`objects/${objectPath(of)}/history`, more, options);

/// Server-sent events, read by fetch because EventSource cannot carry a token. `opened` is called once the server has
/// answered; after that, each message goes to `heard` as {id, event, data}. Returns when the server ends the stream.
export async function stream(filters, lastId, { signal, opened, heard }) {
  const headers = { Accept: "text/event-stream" };
  if (lastId) headers["Last-Event-ID"] = String(lastId);
  const answer = await request("stream", filters, { headers, signal });
  opened();
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value.replaceAll("\r\n", "\n");
    let end;
    while ((end = text.indexOf("\n\n")) >= 0) {
      const message = parse(text.slice(0, end));
      text = text.slice(end + 2);
      if (message) heard(message);
    }
  }
}

function parse(block) {
  const message = { event: "message", data: "" };
  let said = false;
  for (const line of block.split("\n")) {
    const colon = line.indexOf(":");
    if (colon === 0) continue;
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
    if (field === "data") message.data += (message.data ? "\n" : "") + value;
    else if (field === "id" || field === "event") message[field] = value;
    said = true;
  }
  return said ? message : null;
}

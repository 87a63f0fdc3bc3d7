// What is looked at, and the URL that says the same: every filter is in it, so that a link is a finding.

/// Those that hold several values, in the order in which the search box writes them.
export const LISTS = ["kind", "namespace", "name", "owner", "class", "manager", "type", "observed"];
const SINGLES = ["hand", "q", "since", "until"];
const ALIASES = { ns: "namespace", by: "manager", is: "type", text: "q" };

/// {view, filters: {kind: [..], .., q, since, until}, event, tab, flat, object, at, compare}
export const state = read(location.search);

const listeners = new Set();

export function onChange(listener) {
  listeners.add(listener);
}

export function read(search) {
  const params = new URLSearchParams(search);
  const filters = {};
  for (const name of LISTS) {
    const values = params.getAll(name).flatMap((value) => value.split(","));
    if (values.length) filters[name] = [...new Set(values)];
  }
  for (const name of SINGLES) {
    const value = params.get(name);
    if (value) filters[name] = value;
  }
  const object = params.get("object");
  return {
    view: object ? "object" : params.get("view") === "health" ? "health" : "timeline",
    filters,
    event: params.get("event") ?? undefined,
    tab: params.get("tab") ?? undefined,
    flat: params.get("flat") === "true",
    object: object ? objectOf(object) : undefined,
    at: params.get("at") ?? undefined,
    compare: params.get("compare") === "now",
  };
}

function objectOf(text) {
  const [group, version, resource, namespace, ...name] = text.split("/");
  return { group: group === "core" ? "" : group, version, resource, namespace: namespace === "-" ? undefined : namespace, name: name.join("/") };
}

export function objectText({ group, version, resource, namespace, name }) {
  return [group || "core", version, resource, namespace || "-", name].join("/");
}

/// The query of a state: `?namespace=shop&class=image,scale`.
export function write(of) {
  const params = new URLSearchParams();
  if (of.view === "health") params.set("view", "health");
  if (of.object) params.set("object", objectText(of.object));
  if (of.at) params.set("at", of.at);
  if (of.compare) params.set("compare", "now");
  for (const name of LISTS) if (of.filters[name]?.length) params.set(name, of.filters[name].join(","));
  for (const name of SINGLES) if (of.filters[name]) params.set(name, of.filters[name]);
  if (of.flat) params.set("flat", "true");
  if (of.event) params.set("event", of.event);
  if (of.tab && of.tab !== "diff") params.set("tab", of.tab);
  // These are allowed as they are in a query, and a person may read the link.
  const text = params.toString().replaceAll("%2C", ",").replaceAll("%3A", ":").replaceAll("%2F", "/");
  return text ? `?${text}` : location.pathname;
}

/// Changes a part of the state and the URL with it. `quiet`: nobody needs to draw again; `replace`: no step back to here.
export function go(change, { quiet = false, replace = false } = {}) {
  Object.assign(state, change);
  const target = write(state);
  if (target !== (location.search || location.pathname)) {
    history[replace ? "replaceState" : "pushState"](null, "", target);
  }
  if (!quiet) tell();
}

/// The link to a state that differs from this one.
export function link(change) {
  return write({ ...state, ...change });
}

const nowhere = { object: undefined, at: undefined, compare: false, event: undefined, tab: undefined };
export const toTimeline = (filters) => ({ ...nowhere, view: "timeline", filters: filters ?? {} });
export const toObject = (object, at) => ({ ...nowhere, view: "object", object, at });
export const toHealth = () => ({ ...nowhere, view: "health" });

function tell() {
  for (const listener of listeners) listener();
}

addEventListener("popstate", () => {
  for (const key of Object.keys(state)) delete state[key];
  Object.assign(state, read(location.search));
  tell();
});

/// As the search box shows it: `namespace:shop class:image,scale words`.
export function format(filters) {
  const quoted = (text) => (/\s/.test(text) ? `"${text}"` : text);
  const parts = [];
  for (const name of [...LISTS, "hand", "since", "until"]) {
    const value = filters[name];
    if (value?.length) parts.push(`${name}:${quoted(Array.isArray(value) ? value.join(",") : value)}`);
  }
  if (filters.q) parts.push(filters.q);
  return parts.join(" ");
}

export function parse(text) {
  const filters = {};
  const words = [];
  for (const [token] of text.matchAll(/[^\s"]*"[^"]*"?|\S+/g)) {
    const plain = token.replaceAll('"', "");
    const match = /^(!?)([a-z]+):(.+)$/.exec(plain);
    const name = match && (ALIASES[match[2]] ?? match[2]);
    if (name && LISTS.includes(name)) {
      const values = match[3].split(",").filter(Boolean).map((value) => match[1] + value);
      filters[name] = [...new Set([...(filters[name] ?? []), ...values])];
    } else if (name && SINGLES.includes(name)) {
      if (name === "q") words.push(match[3]);
      else filters[name] = match[3];
    } else if (!/^!?[a-z]+:$/.test(plain)) {
      words.push(plain);
    }
  }
  if (words.length) filters.q = words.join(" ");
  return filters;
}

/// In, out, not at all: what a click on a value of a facet does.
export function toggled(filters, name, value, exclude = false) {
  const wanted = exclude ? `!${value}` : value;
  const old = filters[name] ?? [];
  const rest = old.filter((one) => one !== value && one !== `!${value}`);
  const values = old.includes(wanted) ? rest : [...rest, wanted];
  const next = { ...filters };
  if (values.length) next[name] = values;
  else delete next[name];
  return next;
}

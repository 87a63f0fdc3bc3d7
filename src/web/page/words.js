// Times, names and numbers as a person would say them.

const dateTime = (options) => new Intl.DateTimeFormat(undefined, options);
const CLOCK = dateTime({ hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const MINUTE = dateTime({ hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const DAY = dateTime({ weekday: "long", day: "numeric", month: "long" });
const SHORT_DAY = dateTime({ day: "numeric", month: "short" });
const FULL = dateTime({ weekday: "short", day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hourCycle: "h23", timeZoneName: "short" });
const NUMBER = new Intl.NumberFormat(undefined);

export const clock = (time) => CLOCK.format(new Date(time));
export const minute = (time) => MINUTE.format(new Date(time));
export const shortDay = (time) => SHORT_DAY.format(new Date(time));
export const full = (time) => FULL.format(new Date(time));
export const number = (value) => NUMBER.format(value ?? 0);
export const count = (value, one, many = `${one}s`) => `${number(value)} ${value === 1 ? one : many}`;

/// One number a day of the reader's calendar.
export function dayOf(time) {
  const date = new Date(time);
  return date.getFullYear() * 10000 + date.getMonth() * 100 + date.getDate();
}

export function day(time, now = Date.now()) {
  const name = DAY.format(new Date(time));
  if (dayOf(time) === dayOf(now)) return `Today, ${name}`;
  if (dayOf(time) === dayOf(now - 86_400_000)) return `Yesterday, ${name}`;
  return name;
}

/// Today the time alone, else the day too.
export function moment(time) {
  return dayOf(time) === dayOf(Date.now()) ? clock(time) : `${shortDay(time)}, ${clock(time)}`;
}

export function span(ms) {
  const seconds = Math.round(ms / 1000);
  if (ms < 950) return `${Math.max(0, Math.round(ms))} ms`;
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) (value /= 1024), (unit += 1);
  return `${value >= 10 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}

/// What people call those that are too long to say.
const SHORT = { HorizontalPodAutoscaler: "HPA", PersistentVolumeClaim: "PVC", PodDisruptionBudget: "PDB", CustomResourceDefinition: "CRD" };

/// Short where everybody says it so.
export const shortKind = ({ kind }) => SHORT[kind] ?? kind;

/// Kinds of the groups that everybody has go by their name alone.
export const groupSuffix = ({ group }) => (!group || !group.includes(".") || group.endsWith(".k8s.io") ? "" : `.${group}`);

export const kind = (row) => `${row.kind}${groupSuffix(row)}`;

export const objectName = ({ namespace, name }) => (namespace ? `${namespace}/${name}` : name);

export const GLYPHS = { created: "+", updated: "~", deleted: "-" };

/// `90s`, `2h`, `3d` or a time, as ms since 1970; undefined when it is neither.
export function instant(text, now = Date.now()) {
  const age = /^(\d+)(s|m|h|d|w)$/.exec(text ?? "");
  if (age) return now - Number(age[1]) * { s: 1e3, m: 6e4, h: 36e5, d: 864e5, w: 6048e5 }[age[2]];
  const time = Date.parse(text);
  return Number.isNaN(time) ? undefined : time;
}

/// A sentence of the event as [{text, is: undefined | "old" | "new"}], without the object's own name in front.
export function sentence({ summary, kind, name, type }) {
  let text = summary;
  const own = `${kind} ${name} `;
  if (text.startsWith(own)) text = text.slice(own.length);
  if (type !== "updated") return [{ text }];
  const pieces = [];
  text.split("; ").forEach((part, index) => {
    if (index) pieces.push({ text: "; " });
    pieces.push(...piece(part));
  });
  return pieces;
}

function piece(part) {
  const arrow = part.indexOf(" -> ");
  if (arrow > 0) {
    let before = part.slice(0, arrow);
    let after = part.slice(arrow + 4);
    let rest = "";
    const tail = /^(.*?)( \([^()]*\)| of \d+)$/.exec(after);
    if (tail) [after, rest] = [tail[1], tail[2]];
    // The sentence does not say where the old value begins: it has as many words as the new one, most often one.
    const words = before.split(" ");
    const take = Math.min(after.split(" ").length, words.length - 1) || 1;
    const old = words.slice(-take).join(" ");
    before = before.slice(0, before.length - old.length);
    return [{ text: before }, { text: old, is: "old" }, { text: " → " }, { text: after, is: "new" }, { text: rest }].filter((p) => p.text);
  }
  const word = /^(.*?)(\S+) (added|removed)\b(.*)$/.exec(part);
  if (word && !/^(lines?|finalizer|probe)$/.test(word[2])) {
    const [, before, value, verb, rest] = word;
    return [{ text: before }, { text: value, is: verb === "added" ? "new" : "old" }, { text: ` ${verb}${rest}` }].filter((p) => p.text);
  }
  return [{ text: part }];
}

/// Shorter beginnings are not worth leaving out.
const SHARED = 8;

/// How much two values begin with that tells nothing, up to a slash: `registry.example.com/shop` of two images.
export function shared(one, other) {
  let same = 0;
  while (same < one.length && one[same] === other[same]) same += 1;
  const end = same && one.lastIndexOf("/", same - 1);
  return end >= SHARED ? end : 0;
}

// An object's YAML at a time, line by line: who set each, and whether it is certain.

import { button, h } from "./dom.js";
import { full, moment } from "./words.js";

/// Why it may have been something else by then.
export function doubtful(doubt, open) {
  if (!doubt) return null;
  const next = doubt.event ? [" ", button("The next change", () => open(doubt.event), { class: "quiet" }), ` was seen ${moment(doubt.until)} and may have been made at any time in between.`] : null;
  return h("p", { class: "doubt", role: "status" }, h("b", {}, `Not certain after ${moment(doubt.since)}: `), `${doubt.reason}.`, next);
}

/// YAML with a gutter: who set a line and when, once for lines that belong together.
export function blamed(lines, open) {
  const box = h("div", { class: "blame", role: "table", "aria-label": "the object as YAML, with who set each line" });
  const newest = lines.reduce((last, { event, time }) => (event && time > last ? time : last), "");
  let before;
  lines.forEach((line, index) => {
    const source = `${line.event ?? "older"} ${line.manager ?? ""}`;
    const first = source !== before;
    before = source;
    const who = line.manager ?? (line.event ? "not recorded" : "before what is kept");
    const title = line.event ? `${who}${line.hand ? ", by hand" : ""}, ${full(line.time)}` : `${who}, older than what is kept`;
    const gutter = !first
      ? null
      : line.event
        ? button([h("span", { class: line.hand ? "hand-name" : "name" }, who), h("time", { datetime: line.time }, moment(line.time))], () => open(line.event), { title, "aria-label": `${title}: show the change` })
        : h("span", { class: "old-name", title }, line.manager ?? "");
    const fresh = line.event && line.time === newest ? " newest" : "";
    box.append(h("div", { class: `l${first ? " first" : ""}${line.hand ? " by-hand" : ""}${fresh}`, role: "row", title }, h("span", { class: "b", role: "cell" }, gutter), h("span", { class: "n", "aria-hidden": "true" }, index + 1), h("span", { class: "c", role: "cell" }, line.text)));
  });
  return box;
}

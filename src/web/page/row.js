// A change, or a rollout, as one line that reads as a sentence: when, what happened, to what, what exactly, who.

import { h, hidden } from "./dom.js";
import { headline, parts } from "./rollup.js";
import { GLYPHS, clock, groupSuffix, kind, objectName, sentence, shared, shortKind, span } from "./words.js";

/// The cells of a row's button.
export function cells(row, extra) {
  return [
    h("time", { class: "t", datetime: row.time }, clock(row.time)),
    glyph(row.type),
    h("span", { class: "obj", title: `${kind(row)} ${objectName(row)}` }, kindCells(row), " ", name(row)),
    h("span", { class: "sum" }, said(row), extra),
    who(row),
  ];
}

export function glyph(type) {
  return h("span", { class: `g ${type}` }, h("span", { "aria-hidden": "true" }, GLYPHS[type] ?? "?"), hidden(` ${type} `));
}

/// Kinds that are longer than most give way to the name, and groups before them.
const LONG = 12;

function kindCells(row) {
  const [text, suffix] = [shortKind(row), groupSuffix(row)];
  return [h("small", { class: text.length > LONG ? null : "whole" }, text), suffix ? h("small", { class: "group" }, suffix) : null];
}

function name({ namespace, name }) {
  return h("em", {}, namespace ? h("span", { class: "ns" }, `${namespace}/`) : null, name);
}

/// The sentence with what was and what is marked. The beginning that both have is there, and shown where there is room.
export function said(row) {
  const pieces = sentence(row);
  return pieces.map(({ text, is }, index) => {
    if (!is) return text;
    const other = pieces[index + (is === "old" ? 2 : -2)];
    const both = other?.is && other.is !== is ? shared(text, other.text) : 0;
    return h("code", { class: is }, both ? h("span", { class: "shared" }, text.slice(0, both)) : null, text.slice(both));
  });
}

export function who(row) {
  const [first, ...others] = row.managers ?? [];
  const late = row.observed && row.observed !== "live" ? h("span", { class: "tag", title: OBSERVED[row.observed] }, row.observed) : null;
  if (!first) {
    const why = row.type === "deleted" ? "the API server does not record who deletes an object" : "no field manager is recorded for this change";
    return h("span", { class: "who", title: why }, late, h("span", { class: "nobody" }, "not recorded"));
  }
  return h("span", { class: "who", title: (row.managers ?? []).join(", ") }, late, row.hand ? h("span", { class: "hand" }, "by hand") : null, " ", h("b", {}, first), others.length ? ` +${others.length}` : null);
}

export const OBSERVED = {
  live: "seen as it happened",
  late: "found after kubediff had been away; several changes may be in one",
  audit: "found by the periodic check; a watch had missed it",
};

/// What came after the change that stands for the group, when it was to the same object.
function after(group, head) {
  const [last] = group.rows;
  const others = group.rows.length - 1;
  const text = sentence(last).map((piece) => piece.text).join("");
  if (last === head) return `${group.rows.length} changes`;
  return others === 1 ? `then ${text}` : `${others} more, the last: ${text}`;
}

/// The cells of a group, which may be a single change.
export function groupCells(group) {
  const head = headline(group);
  if (group.rows.length === 1) return cells(head);
  const told = parts(group, head);
  const took = group.to - group.from;
  const text = `${told.length ? told.join(", ") : after(group, head)}${took >= 1000 && !group.ends ? ` in ${span(took)}` : ""}`;
  return cells(head, [" ", h("span", { class: "kids", title: `${group.rows.length} changes, rolled up` }, text)]);
}

// Two documents as a coloured diff of their YAML: inline or side by side, what did not change folded away.

import { button, h, hidden } from "./dom.js";
import { compare, words } from "./lines.js";
import { count, number } from "./words.js";
import { lines } from "./yaml.js";

/// Lines around a change that stay in sight.
const AROUND = 3;
/// A fold must be worth a line.
const FOLD = 4;
/// What came or went as a whole shows so much at first.
const WHOLE = 40;
/// Of a longer line only the ends are shown.
const LONG = 3000;

/// [{op, old: {n, text, marks}, fresh: {n, text, marks}, path}], one an output line of the side-by-side form.
export function rows(before, after) {
  const [a, b] = [lines(before), lines(after)];
  const steps = compare(a, b, (x, y) => x.text === y.text);
  const out = [];
  for (let i = 0; i < steps.length; ) {
    if (steps[i].op === "same") {
      const { a: n, b: m } = steps[i];
      out.push({ op: "same", old: { n: n + 1, text: a[n].text }, fresh: { n: m + 1, text: b[m].text }, path: b[m].path, parent: b[m].parent });
      i += 1;
      continue;
    }
    const [went, came] = [[], []];
    for (; i < steps.length && steps[i].op !== "same"; i += 1) (steps[i].op === "old" ? went : came).push(steps[i]);
    out.push(...pairs(went.map((s) => ({ n: s.a + 1, ...a[s.a] })), came.map((s) => ({ n: s.b + 1, ...b[s.b] }))));
  }
  return out;
}

/// Lines that went beside those that came: of the same field where there is one, so that the words can be compared.
function pairs(went, came) {
  const out = [];
  let next = 0;
  for (const old of went) {
    let match = -1;
    for (let i = next; match < 0 && i < Math.min(came.length, next + 12); i += 1) {
      if (came[i].path === old.path && words(old.text, came[i].text)) match = i;
    }
    if (match < 0) {
      out.push({ op: "changed", old, path: old.path, parent: old.parent });
      continue;
    }
    for (; next < match; next += 1) out.push({ op: "changed", fresh: came[next], path: came[next].path, parent: came[next].parent });
    const marks = words(old.text, came[match].text);
    out.push({ op: "changed", old: { ...old, marks: marks.old }, fresh: { ...came[match], marks: marks.fresh }, path: old.path, parent: old.parent });
    next = match + 1;
  }
  for (; next < came.length; next += 1) out.push({ op: "changed", fresh: came[next], path: came[next].path, parent: came[next].parent });
  return out;
}

/// Runs of rows: {from, to, folded}.
function hunks(all) {
  const near = new Uint8Array(all.length);
  all.forEach((row, index) => {
    if (row.op === "same") return;
    for (let i = Math.max(0, index - AROUND); i <= Math.min(all.length - 1, index + AROUND); i += 1) near[i] = 1;
  });
  const out = [];
  for (let from = 0; from < all.length; ) {
    let to = from;
    while (to < all.length && near[to] === near[from]) to += 1;
    const folded = !near[from] && to - from >= FOLD;
    out.push({ from, to, folded });
    from = to;
  }
  return out;
}

/// The element. `mode` is "inline" or "split".
export function render(before, after, mode) {
  const all = rows(before, after);
  const whole = before === null || before === undefined ? "created" : after === null || after === undefined ? "deleted" : undefined;
  const box = h("div", { class: `diff ${mode}`, role: "table", "aria-label": whole ? `the object that was ${whole}` : "what changed, as YAML" });
  if (!all.length) return h("p", { class: "note" }, "Nothing is known of what this object held.");
  if (!all.some((row) => row.op !== "same")) return h("p", { class: "note" }, "The document is the same before and after.");
  const draw = mode === "split" && !whole ? split : inline;
  const parts = whole && all.length > WHOLE + FOLD ? [{ from: 0, to: WHOLE }, { from: WHOLE, to: all.length, folded: true, rest: true }] : hunks(all);
  for (const part of parts) {
    const make = () => draw(all.slice(part.from, part.to));
    if (part.folded) box.append(fold(all, part, make));
    else box.append(...make());
  }
  return box;
}

function fold(all, { from, to, rest }, make) {
  const where = rest ? "" : all.slice(to, to + AROUND + 1).find((row) => row.op !== "same")?.parent;
  const text = rest ? `${count(to - from, "more line")}` : `${count(to - from, "line")} unchanged`;
  const line = h("div", { class: "fold", role: "row" });
  const open = button([h("span", { class: "fold-mark", "aria-hidden": "true" }, "⋯"), h("span", {}, text), where ? h("span", { class: "where" }, where) : null], () => {
    const made = make();
    line.replaceWith(...made);
    made[0]?.setAttribute("tabindex", "-1");
    made[0]?.focus({ preventScroll: true });
  }, { "aria-label": `${text}${where ? `, before ${where}` : ""}: show` });
  line.append(h("span", { role: "cell" }, open));
  return line;
}

const SIGNS = { old: "-", fresh: "+", same: " " };
const SAID = { old: "removed: ", fresh: "added: " };

function inline(all) {
  const out = [];
  let [went, came] = [[], []];
  const flush = () => {
    out.push(...went, ...came);
    [went, came] = [[], []];
  };
  for (const row of all) {
    if (row.op === "same") {
      flush();
      out.push(line("same", row.fresh, row.path));
    } else if (row.old && row.fresh) {
      // A changed line stands right below what it was.
      flush();
      out.push(line("old", row.old, row.path), line("fresh", row.fresh, row.path));
    } else if (row.old) went.push(line("old", row.old, row.path));
    else came.push(line("fresh", row.fresh, row.path));
  }
  flush();
  return out;
}

function line(side, content, path) {
  return h("div", { class: `l ${side}`, role: "row", title: path || null }, cells(side, content));
}

function cells(side, content) {
  return [
    h("span", { class: "n", role: "cell", "aria-hidden": "true" }, number(content.n)),
    h("span", { class: "s", role: "cell" }, h("span", { "aria-hidden": "true" }, SIGNS[side]), SAID[side] ? hidden(SAID[side]) : null),
    h("span", { class: "c", role: "cell" }, marked(content)),
  ];
}

function marked({ text, marks }) {
  if (!marks) return shortened(text);
  return marks.map((piece) => (piece.mark ? h("b", {}, shortened(piece.text)) : shortened(piece.text)));
}

function shortened(text) {
  if (text.length <= LONG) return text;
  return `${text.slice(0, LONG / 2)} … ${number(text.length - LONG)} characters … ${text.slice(-LONG / 2)}`;
}

function split(all) {
  return all.map((row) => {
    const side = (which) => {
      const content = row[which];
      if (!content) return h("div", { class: "half none" });
      return h("div", { class: `half ${row.op === "same" ? "same" : which}` }, cells(row.op === "same" ? "same" : which, content));
    };
    return h("div", { class: "pair", role: "row", title: row.path || null }, side("old"), side("fresh"));
  });
}

/// The document alone, as it was.
export function plain(document) {
  const all = lines(document);
  const box = h("div", { class: "diff inline", role: "table", "aria-label": "the object, as YAML" });
  const show = (from, to) => all.slice(from, to).map((content, index) => line("same", { n: from + index + 1, text: content.text }, content.path));
  box.append(...show(0, 400));
  if (all.length > 400) {
    const more = button(`Show ${count(all.length - 400, "more line")}`, () => more.replaceWith(...show(400, all.length)), { class: "more" });
    box.append(more);
  }
  return box;
}

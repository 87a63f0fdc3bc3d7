// What differs between two lists: of lines, and within lines of words.

/// Beyond so many differences the rest is told as one block: nobody reads it line by line, and it would take long.
const ENOUGH = 1500;

/// [{op: "same" | "old" | "new", a, b}]: indexes into the two lists, removed before added.
export function compare(a, b, same = (x, y) => x === y) {
  let head = 0;
  while (head < a.length && head < b.length && same(a[head], b[head])) head += 1;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && same(a[a.length - 1 - tail], b[b.length - 1 - tail])) tail += 1;
  const steps = [];
  for (let i = 0; i < head; i += 1) steps.push({ op: "same", a: i, b: i });
  middle(a, b, head, a.length - tail, b.length - tail, same, steps);
  for (let i = tail; i > 0; i -= 1) steps.push({ op: "same", a: a.length - i, b: b.length - i });
  return ordered(steps);
}

/// Myers' greedy algorithm, forward, with the trace kept.
function middle(a, b, head, aEnd, bEnd, same, steps) {
  const [n, m] = [aEnd - head, bEnd - head];
  const block = () => {
    for (let i = head; i < aEnd; i += 1) steps.push({ op: "old", a: i });
    for (let j = head; j < bEnd; j += 1) steps.push({ op: "new", b: j });
  };
  if (!n || !m) return block();
  const most = Math.min(n + m, ENOUGH);
  const size = most + 1;
  const v = new Int32Array(2 * size + 1);
  const trace = [];
  for (let d = 0; d <= most; d += 1) {
    trace.push(v.slice(size - d - 1, size + d + 2));
    for (let k = -d; k <= d; k += 2) {
      let x = k === -d || (k !== d && v[size + k - 1] < v[size + k + 1]) ? v[size + k + 1] : v[size + k - 1] + 1;
      while (x < n && x - k < m && same(a[head + x], b[head + x - k])) x += 1;
      v[size + k] = x;
      if (x >= n && x - k >= m) return back(trace, n, m, head, steps);
    }
  }
  return block();
}

function back(trace, n, m, head, steps) {
  const found = [];
  let [x, y] = [n, m];
  for (let d = trace.length - 1; d >= 0; d -= 1) {
    const v = trace[d];
    const at = (k) => v[k + d + 1];
    const k = x - y;
    const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const fromK = down ? k + 1 : k - 1;
    const fromX = d === 0 ? 0 : at(fromK);
    const fromY = d === 0 ? 0 : fromX - fromK;
    while (x > fromX && y > fromY) {
      x -= 1;
      y -= 1;
      found.push({ op: "same", a: head + x, b: head + y });
    }
    if (d === 0) break;
    if (down) found.push({ op: "new", b: head + (y -= 1) });
    else found.push({ op: "old", a: head + (x -= 1) });
  }
  steps.push(...found.reverse());
}

/// Within a run of differences, what went stands before what came.
function ordered(steps) {
  const out = [];
  let came = [];
  for (const step of steps) {
    if (step.op === "new") came.push(step);
    else {
      if (step.op === "same" && came.length) {
        out.push(...came);
        came = [];
      }
      out.push(step);
    }
  }
  out.push(...came);
  return out;
}

/// Two lines as pieces [{text, mark}], with what differs marked; null when they have little in common.
export function words(from, to) {
  if (from.length > 4000 || to.length > 4000) return ends(from, to);
  const split = (text) => text.match(/[\p{L}\p{N}_]+|\s+|./gu) ?? [];
  const [a, b] = [split(from), split(to)];
  const steps = compare(a, b);
  let common = 0;
  for (const { op, a: i } of steps) if (op === "same") common += a[i].trim().length;
  const longer = Math.max(from.trim().length, to.trim().length);
  if (common < longer * 0.3) return null;
  const [old, fresh] = [[], []];
  const push = (list, text, mark) => {
    const last = list[list.length - 1];
    if (last && last.mark === mark) last.text += text;
    else list.push({ text, mark });
  };
  for (const step of steps) {
    if (step.op !== "new") push(old, a[step.a], step.op === "old");
    if (step.op !== "old") push(fresh, b[step.b], step.op === "new");
  }
  return { old, fresh };
}

/// For very long lines: all between what is equal at both ends.
function ends(from, to) {
  let head = 0;
  while (head < from.length && from[head] === to[head]) head += 1;
  let tail = 0;
  const room = Math.min(from.length, to.length) - head;
  while (tail < room && from[from.length - 1 - tail] === to[to.length - 1 - tail]) tail += 1;
  const cut = (text) => [
    { text: text.slice(0, head), mark: false },
    { text: text.slice(head, text.length - tail), mark: true },
    { text: text.slice(text.length - tail), mark: false },
  ];
  return { old: cut(from), fresh: cut(to) };
}

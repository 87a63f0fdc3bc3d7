// Rows gathered into rollouts. A rollout begins with its cause, a change that somebody asked for of the root owner
// itself, and goes on with what follows from it below that owner. Without a cause, changes of one owner that come close
// to each other are one. The end of a namespace is one with all that goes with it. The same rows give the same groups
// whether they are heard as they happen or read back.

/// What comes later than this after the one before it is something else.
export const GAP = 90_000;
/// A rollout is never longer than this.
export const SPAN = 15 * 60_000;
/// Each kind has a watch of its own, and they are not in step: what follows may be recorded this much before its cause.
/// Milliseconds are usual; a watch that has to connect again takes seconds.
export const EARLY = 5_000;

const FOLLOWS = new Set(["status", "metadata", "health", "rollout", "annotations"]);
/// A Node's controller mirrors its state as taints.
const FOLLOWS_ON_NODES = new Set([...FOLLOWS, "spec", "scheduling"]);

function ownerOf(row) {
  const owner = row.owner ?? row;
  return `${owner.kind} ${owner.namespace ?? ""}/${owner.name}`;
}

export function isCause(row) {
  const owner = row.owner ?? row;
  const own = owner.kind === row.kind && owner.name === row.name && (owner.namespace ?? "") === (row.namespace ?? "");
  const follows = row.kind === "Node" ? FOLLOWS_ON_NODES : FOLLOWS;
  return own && (row.type !== "updated" || row.hand || row.classes.some((name) => !follows.has(name)));
}

const isNamespace = (row) => row.kind === "Namespace" && !row.group;
/// The namespace that a row is in; a Namespace is in itself.
const placeOf = (row) => (isNamespace(row) ? row.name : row.namespace);

/// The namespace that a row says is going or gone.
function endOf(row) {
  if (!isNamespace(row)) return undefined;
  const asked = row.type === "updated" && row.classes.includes("lifecycle") && /is (terminating|being deleted)/.test(row.summary);
  return asked || row.type === "deleted" ? row.name : undefined;
}

/// Whether a row may be part of the end of the namespace that it is in: it goes, or its controllers note that others do.
function goes(row) {
  return row.type === "deleted" || (row.type === "updated" && !row.hand && (row.classes.includes("lifecycle") || row.classes.every((name) => FOLLOWS.has(name))));
}

/// Whether a row is part of an end of the namespace that it is in, by when it was: from when the end was `asked` for until
/// the namespace is `gone`, as far as the two are known. What goes may be recorded early for the one and late for the other.
function isPart(row, { asked, gone }) {
  if (!goes(row) || row.at - (asked ?? gone).at > SPAN) return false;
  if (gone && row.at - gone.at > EARLY) return false;
  if (!asked) return gone.at - row.at <= SPAN;
  return row.at >= asked.at || ((row.type === "deleted" || row.classes.includes("lifecycle")) && asked.at - row.at <= EARLY);
}

/// Whether a row that says that a namespace goes is the other half of an end. The watch of Namespaces is in step with
/// itself: the first is always recorded first. Another one is of a namespace that was made again.
function isOtherHalf(row, { asked, gone }, towards) {
  if (asked && gone) return false;
  const [first, last] = towards === "older" ? [row, gone] : [asked, row];
  return Boolean(first && last) && first.type !== "deleted" && last.type === "deleted" && last.at - first.at <= SPAN;
}

const later = (a, b) => b.at - a.at || b.seq - a.seq;
const newestFirst = (a, b) => b.from - a.from || b.seq - a.seq;

/// Whether a row that is no cause goes on with what a group has.
const goesOn = (row, group) => row.at - group.to <= GAP && row.at - group.from <= SPAN;

/// The rows that are known, without doubles, newest first, and the same as groups.
export class Rows {
  constructor(flat) {
    this.flat = flat;
    this.ids = new Set();
    this.groups = [];
    this.oldest = new Map();
    this.newest = new Map();
    /// By owner, the group before which the oldest one comes, while that has no cause: if it gets one, rows that came
    /// early for theirs in this group are its own.
    this.unsure = new Map();
    /// The oldest and the newest end of each namespace, which may still go on towards older and towards newer rows;
    /// nothing where the namespace was made before the one or after the other.
    this.endings = { older: new Map(), newer: new Map() };
    this.count = 0;
    /// Whether groups that were known have lost rows to the end of a namespace.
    this.taken = false;
  }

  /// A page: each of its rows is older than all before it. Gives the place of the first group that is new or another
  /// one: those before it are as they were.
  addOlder(rows) {
    const known = this.groups.length;
    this.from = known;
    for (const row of rows) this.#end(row, "older") ?? this.#older(row);
    this.taken = false;
    // Of a long list only the end is another one.
    const from = Math.min(this.from, this.groups.length);
    const end = this.groups.splice(from).sort(newestFirst);
    // One that comes before what was there already is the work of a clock that was set.
    if (from && end.length && newestFirst(this.groups[from - 1], end[0]) > 0) {
      for (const group of end) this.groups.push(group);
      this.#sort();
      return 0;
    }
    for (const group of end) {
      group.order = this.groups.length;
      this.groups.push(group);
    }
    return from;
  }

  /// What just happened.
  addNewer(rows) {
    const touched = [];
    const known = this.groups.length;
    for (const row of rows) {
      const group = this.#end(row, "newer") ?? this.#newer(row);
      if (group) touched.push(group);
    }
    if (this.taken) {
      this.taken = false;
      this.#sort();
      const there = new Set(this.groups);
      return touched.filter((group) => there.has(group));
    }
    // What is new comes before all that was there, unless a clock was set.
    const fresh = this.groups.splice(known).sort(newestFirst);
    const { groups } = this;
    const inOrder = (a, b) => !a || !b || newestFirst(a, b) <= 0;
    const moved = touched.some(({ order }) => order !== undefined && !(inOrder(groups[order - 1], groups[order]) && inOrder(groups[order], groups[order + 1])));
    const first = inOrder(fresh[fresh.length - 1], groups[0]);
    this.groups = fresh.concat(groups);
    if (moved || !first) this.groups.sort(newestFirst);
    this.#number();
    return touched;
  }

  /// Forgets the oldest groups, so that about so many rows are left. Gives the cursor with which they are read again.
  forget(most) {
    let [cursor, at] = [0, this.groups.length];
    while (at > 1 && this.count > most) {
      at -= 1;
      for (const row of this.groups[at].rows) {
        this.ids.delete(row.id);
        this.count -= 1;
        cursor = Math.max(cursor, row.seq + 1);
      }
    }
    const gone = new Set(this.groups.splice(at));
    for (const ends of [this.oldest, this.newest, this.unsure, this.endings.older, this.endings.newer]) {
      for (const [key, group] of ends) if (gone.has(group)) ends.delete(key);
    }
    return cursor || undefined;
  }

  /// The group of a namespace's end, if the row is part of one.
  #end(row, towards) {
    if (this.flat || this.ids.has(row.id)) return undefined;
    row.at ??= Date.parse(row.time);
    const [name, place] = [endOf(row), placeOf(row)];
    if (isNamespace(row) && row.type === "created") this.#mark(place, undefined, towards);
    let group = this.endings[towards].get(place);
    if (name !== undefined && group && !isOtherHalf(row, group, towards)) group = undefined;
    if (name === undefined && !(group && isPart(row, group))) return undefined;
    this.ids.add(row.id);
    this.count += 1;
    if (group) {
      group.rows.push(row);
      group.version += 1;
    } else {
      group = { key: row.id, rows: [row], version: 0, ends: name };
      this.groups.push(group);
    }
    if (name !== undefined) {
      group[row.type === "deleted" ? "gone" : "asked"] = row;
      this.#gather(group);
      this.#mark(name, group, towards);
    }
    group.rows.sort(later);
    return this.#bound(group);
  }

  /// What rows of a namespace may be part of from here on; of the only one that is known, at both ends.
  #mark(name, group, towards) {
    const { older, newer } = this.endings;
    const [here, there] = towards === "older" ? [older, newer] : [newer, older];
    here.set(name, group);
    if (!there.has(name)) there.set(name, group);
  }

  /// Takes what was known before it was known that the namespace goes.
  #gather(group) {
    const { asked, gone, ends } = group;
    const [first, last] = [asked ?? gone, gone ?? asked];
    let [from, to] = [-Infinity, Infinity];
    const parts = [];
    for (const one of this.groups) {
      // An end of which only the last was known may have taken what is early for it.
      if (one === group || (one.ends !== undefined && !(one.ends === ends && !one.asked && !gone && asked.seq < one.gone.seq))) continue;
      for (const row of one.rows) {
        if (placeOf(row) !== ends) continue;
        if (isNamespace(row) && row.type === "created") {
          if (row.seq < first.seq) from = Math.max(from, row.seq);
          if (row.seq > last.seq) to = Math.min(to, row.seq);
        } else if (row !== one.gone && isPart(row, group)) parts.push([one, row]);
      }
    }
    const taken = new Map();
    for (const [one, row] of parts) {
      if (row.seq < from || row.seq > to) continue;
      if (!taken.has(one)) taken.set(one, []);
      taken.get(one).push(row);
      group.rows.push(row);
    }
    for (const [one, rows] of taken) this.#take(one, rows);
  }

  /// Takes rows out of a group as if they had never been in it.
  #take(group, rows) {
    this.from = 0;
    this.taken = true;
    const owner = ownerOf(rows[0]);
    if (rows.includes(group.cause)) group.cause = undefined;
    if (rows.length < group.rows.length) return this.#leave(group, rows);
    this.groups = this.groups.filter((one) => one !== group);
    if (![this.oldest, this.newest, this.unsure].some((ends) => ends.get(owner) === group)) return undefined;
    const others = this.groups.filter((one) => one.ends === undefined && ownerOf(one.rows[0]) === owner).sort(newestFirst);
    for (const [ends, other] of [[this.oldest, others[others.length - 1]], [this.newest, others[0]], [this.unsure, undefined]]) {
      if (other) ends.set(owner, other);
      else ends.delete(owner);
    }
    return undefined;
  }

  #bound(group) {
    const first = group.rows[group.rows.length - 1];
    if (group.order !== undefined) this.from = Math.min(this.from ?? 0, group.order);
    return Object.assign(group, { from: first.at, to: group.rows[0].at, seq: first.seq });
  }

  /// Whether the row is new.
  #know(row) {
    if (this.ids.has(row.id)) return false;
    this.ids.add(row.id);
    this.count += 1;
    row.at ??= Date.parse(row.time);
    return true;
  }

  #begin(row, cause) {
    const group = { key: row.id, rows: [row], version: 0, cause };
    this.groups.push(group);
    return this.#bound(group);
  }

  #join(group, rows) {
    group.rows.push(...rows);
    group.rows.sort(later);
    group.version += 1;
    return this.#bound(group);
  }

  #leave(group, rows) {
    const gone = new Set(rows);
    group.rows = group.rows.filter((row) => !gone.has(row));
    group.version += 1;
    this.#bound(group);
  }

  /// A row that was recorded before all that are known.
  #older(row) {
    if (!this.#know(row)) return undefined;
    if (this.flat) return this.#begin(row);
    const [owner, cause] = [ownerOf(row), isCause(row) ? row : undefined];
    let group = this.oldest.get(owner);
    const fits = group?.cause ? !cause && group.cause.at - row.at <= EARLY : group && group.from - row.at <= GAP && group.to - row.at <= SPAN;
    if (fits) this.#join(group, [row]);
    else {
      if (group?.cause) this.unsure.set(owner, group);
      else this.unsure.delete(owner);
      group = this.#begin(row);
      this.oldest.set(owner, group);
      if (!this.newest.has(owner)) this.newest.set(owner, group);
    }
    if (cause) {
      group.cause = cause;
      if (this.unsure.has(owner)) this.#claim(group, this.unsure.get(owner));
      this.unsure.delete(owner);
    }
    return group;
  }

  /// What a group has of those that came early for the cause of the next one: it was going on when they came.
  #claim(group, next) {
    const early = next.rows.filter((row) => row.seq < next.cause.seq).reverse();
    const mine = [];
    for (const row of early) {
      if (!goesOn(row, group)) break;
      this.#join(group, [row]);
      mine.push(row);
    }
    if (mine.length) this.#leave(next, mine);
  }

  /// A row that was recorded after all that are known.
  #newer(row) {
    if (!this.#know(row)) return undefined;
    if (this.flat) return this.#begin(row);
    const [owner, cause] = [ownerOf(row), isCause(row) ? row : undefined];
    const last = this.newest.get(owner);
    if (last && !cause && goesOn(row, last)) return this.#join(last, [row]);
    const early = cause && last && !last.cause ? last.rows.filter((one) => cause.at - one.at <= EARLY) : [];
    if (early.length && early.length === last.rows.length) {
      last.cause = cause;
      return this.#join(last, [row]);
    }
    const group = this.#begin(row, cause);
    this.newest.set(owner, group);
    if (!this.oldest.has(owner)) this.oldest.set(owner, group);
    if (early.length) {
      this.#leave(last, early);
      this.#join(group, early);
      if (this.oldest.get(owner) === last) this.unsure.set(owner, group);
    }
    return group;
  }

  /// By when each began, so that a rollout that goes on stays where it is.
  #sort() {
    this.groups.sort(newestFirst);
    this.#number();
  }

  #number() {
    for (let order = 0; order < this.groups.length; order += 1) this.groups[order].order = order;
  }

  last() {
    return this.groups[this.groups.length - 1];
  }

  newestSeq() {
    return this.groups.reduce((seq, group) => Math.max(seq, group.rows[0].seq), 0);
  }
}

/// The row that stands for the group: its cause, else one made by hand, else the one that says most.
export function headline(group) {
  const { rows } = group;
  const first = rows[rows.length - 1];
  if (group.ends) return rows.find((row) => endOf(row) === group.ends && row.type === "deleted") ?? rows.find((row) => endOf(row)) ?? first;
  return group.cause ?? rows.find((row) => row.hand) ?? first;
}

/// `1 ReplicaSet, 20 pods replaced`: what else is in the group.
export function parts(group, head) {
  if (group.ends) return gone(group);
  const kinds = new Map();
  for (const row of group.rows) {
    if (row === head) continue;
    const tally = kinds.get(row.kind) ?? { created: new Set(), deleted: new Set(), updated: new Set() };
    tally[row.type].add(`${row.namespace}/${row.name}`);
    kinds.set(row.kind, tally);
  }
  const said = [];
  for (const [kind, { created, deleted, updated }] of kinds) {
    const some = (set, verb) => `${set.size} ${plural(kind, set.size)}${verb ? ` ${verb}` : ""}`;
    if (kind === head.kind && !created.size && !deleted.size) continue;
    if (created.size && deleted.size && Math.abs(created.size - deleted.size) <= 1) said.push([created.size, some(created, "replaced")]);
    else {
      if (created.size) said.push([created.size, some(created, "created")]);
      if (deleted.size) said.push([deleted.size, some(deleted, "deleted")]);
      if (!created.size && !deleted.size) said.push([updated.size, some(updated, "")]);
    }
  }
  return said.sort((a, b) => a[0] - b[0]).map(([, text]) => text);
}

/// `23 objects deleted with it: 12 pods, 4 ConfigMaps, ...`
function gone(group) {
  const objects = new Map();
  for (const row of group.rows) {
    if (row.type === "deleted" && !endOf(row)) objects.set(`${row.kind} ${row.namespace}/${row.name}`, row.kind);
  }
  if (!objects.size) return [];
  const kinds = new Map();
  for (const kind of objects.values()) kinds.set(kind, (kinds.get(kind) ?? 0) + 1);
  const most = [...kinds].sort((a, b) => b[1] - a[1]);
  const named = most.slice(0, 3).map(([kind, number]) => `${number} ${plural(kind, number)}`);
  return [`${objects.size} ${objects.size === 1 ? "object" : "objects"} deleted with it: ${named.join(", ")}${most.length > 3 ? ", …" : ""}`];
}

function plural(kind, number) {
  const word = kind === "Pod" ? "pod" : kind;
  if (number === 1) return word;
  if (/(s|x|ch)$/.test(word)) return `${word}es`;
  return word.endsWith("cy") ? `${word.slice(0, -1)}ies` : `${word}s`;
}

// One object through its whole life: a slider over its changes, its YAML at that moment, and who set each line.

import * as api from "./api.js";
import { blamed, doubtful } from "./blame.js";
import { detail } from "./detail.js";
import { render } from "./diff.js";
import { announce, button, copy, h, later, replace, svg } from "./dom.js";
import { cells } from "./row.js";
import { go, link, objectText, state, toTimeline } from "./state.js";
import { clock, count, full, instant, kind as kindName, moment, objectName, span } from "./words.js";

/// Changes that are read at a time; so many newer ones when the one that is looked at is not among the newest; and so many are
/// kept: others are read again when somebody comes to them.
const [PAGE, NEWER, MOST] = [500, 40, 3000];
/// Marks on the slider for changes that are not read.
const BUCKETS = 200;

export class ObjectPage {
  constructor({ tail }) {
    this.tail = tail;
    this.head = h("header", { class: "object-head" });
    this.time = h("section", { class: "life", "aria-label": "Its life" });
    this.body = h("section", { class: "object-body", "aria-label": "The object at that time" });
    this.past = h("section", { class: "object-history", "aria-label": "Its changes" });
    this.element = h("div", { class: "object-view" }, this.head, this.time, h("div", { class: "object-columns" }, this.body, this.past));
    this.cache = new Map();
    this.keys = {
      "[": () => this.step(-1),
      "]": () => this.step(1),
      Escape: () => go(toTimeline(state.filters)),
    };
  }

  close() {
    this.control?.abort();
    this.sliding?.cancel();
    this.tail.stop();
  }

  update() {
    const wanted = objectText(state.object);
    if (wanted !== this.shown) {
      this.shown = wanted;
      this.load();
    } else if (this.rows) this.show();
  }

  async load() {
    this.control?.abort();
    this.density = undefined;
    this.strange = undefined;
    this.newest = 0;
    this.control = new AbortController();
    const { signal } = this.control;
    this.rows = undefined;
    this.cache.clear();
    replace(this.head, h("h1", {}, objectName(state.object)));
    replace(this.time, h("p", { class: "note" }, "Reading its history …"));
    replace(this.body);
    replace(this.past);
    // The tail first, so that nothing falls between it and what is read.
    this.early = [];
    const plain = /^[\w.-]+$/.test(state.object.name);
    await this.tail.start(plain ? { name: state.object.name } : {});
    if (signal.aborted) return;
    try {
      const [newest, now] = await Promise.all([this.#read({}, signal), api.object(state.object, undefined, { signal })]);
      this.now = now;
      this.#take(newest);
      this.tail.lastId ??= this.rows[0]?.seq;
      if (!this.#covers()) this.#take(await this.#around(signal));
      this.show();
      this.heard(this.early);
    } catch (failure) {
      if (failure.name === "AbortError") return;
      const missing = failure.status === 404;
      replace(this.time, h("div", { class: "trouble", role: "alert" }, h("h3", {}, missing ? "kubediff does not know this object" : "The object could not be read"), h("p", {}, failure.message), h("p", {}, failure.remedy ?? (missing ? "It may have been deleted before what is kept, or is of a kind that is not watched." : "")), button("Try again", () => this.load(), { class: "primary" }), " ", h("a", { class: "button", href: link(toTimeline()), "data-go": "" }, "To the timeline")));
    }
  }

  /// A live change of this very object.
  heard(rows) {
    if (!this.rows) {
      this.early?.push(...rows);
      return;
    }
    const mine = rows.filter((row) => objectText(row) === this.shown && row.seq > this.newest).reverse();
    if (!mine.length) return;
    this.newest = mine[0].seq;
    // What is older than those that are shown and what is newer join only where nothing is left out between them.
    if (!this.newer) {
      this.rows.unshift(...mine);
      if (this.rows.length > MOST) {
        this.rows.length = MOST;
        this.next = String(this.rows[MOST - 1].seq);
      }
    }
    this.now = { ...this.now, exists: mine[0].type !== "deleted", changes: this.now.changes + mine.length, first: this.now.first ?? mine[mine.length - 1].time, last: mine[0].time };
    this.cache.delete("now");
    announce(`this object was ${mine[0].type}: ${mine[0].summary}`);
    this.show();
  }

  #read(more, signal) {
    return api.history(state.object, { limit: PAGE, ...more }, { signal });
  }

  /// A page of the newest, or what [`#around`] gives.
  #take({ events, next, newer }) {
    this.rows = events;
    this.next = next;
    this.newer = newer;
    this.#joined();
  }

  /// Where rows reach the newest that were read, one that was heard of meanwhile may be missing.
  #joined() {
    const [first] = this.rows;
    if (this.newer || !first) return;
    if (this.newest > first.seq) this.newer = String(first.seq);
    else this.newest = first.seq;
  }

  /// Whether the change that the URL means is among the rows.
  #covers() {
    const { rows } = this;
    if (state.event && rows.some((row) => row.id === state.event)) return true;
    const at = instant(state.at);
    if (state.event && this.strange !== state.event) return !this.next && !this.newer;
    if (at === undefined) return !this.newer;
    // Several may be of one moment: which of them is the last is known only with one that is later.
    return (!this.newer || at < Date.parse(rows[0].time)) && (!this.next || at >= Date.parse(rows[rows.length - 1].time));
  }

  /// The changes before and after the one that the URL means.
  async #around(signal) {
    const read = async (when) => {
      const older = await this.#read(when, signal);
      const after = older.events.length ? { cursor: older.events[0].seq } : {};
      const newer = await this.#read({ ...after, limit: NEWER, order: "asc" }, signal);
      return { events: [...newer.events.reverse(), ...older.events], next: older.next, newer: newer.next };
    };
    if (state.event && this.strange !== state.event) {
      try {
        return await read({ event: state.event });
      } catch (failure) {
        if (failure.status !== 404) throw failure;
        // It is of another object, or forgotten.
        this.strange = state.event;
      }
    }
    return state.at ? read({ at: state.at }) : this.#read({}, signal);
  }

  /// Reads what the URL means when it is not among the rows. Gives whether that is under way.
  #reach() {
    // What was under way for another moment is not waited for any more.
    const reaching = (this.reaching = {});
    if (this.#covers()) return false;
    const { signal } = this.control;
    this.past.setAttribute("aria-busy", "true");
    this.#around(signal).then(
      (around) => {
        if (reaching !== this.reaching || signal.aborted) return;
        this.past.setAttribute("aria-busy", "false");
        this.#take(around);
        this.show(true);
      },
      (failure) => {
        if (reaching === this.reaching) this.#failed(failure);
      },
    );
    return true;
  }

  /// The change that made it what it was: its index in the rows, which are newest first. Several may share their time, so
  /// one that was stepped to is known by its id.
  #chosen() {
    const named = state.event ? this.rows.findIndex((row) => row.id === state.event) : -1;
    if (named >= 0) return named;
    const at = instant(state.at);
    if (at === undefined) return 0;
    const index = this.rows.findIndex((row) => Date.parse(row.time) <= at);
    return index < 0 ? this.rows.length - 1 : index;
  }

  /// Which state is asked of the API: as a change left it, at a time between changes, or now.
  #when() {
    if (state.event && this.rows.some((row) => row.id === state.event)) return { event: state.event };
    return state.at ? { at: state.at } : undefined;
  }

  pick(index, quiet) {
    this.sliding?.cancel();
    const row = this.rows[index];
    go(index === 0 && !this.newer ? { at: undefined, event: undefined } : { at: row.time, event: row.id }, { replace: true, quiet });
  }

  async step(by) {
    if (!this.rows?.length || this.stepping) return;
    const id = this.rows[this.#chosen()].id;
    const place = () => this.rows.findIndex((row) => row.id === id) - by;
    const missing = () => (place() < 0 && this.newer) || (place() >= this.rows.length && this.next);
    if (missing()) {
      this.stepping = true;
      await (by > 0 ? this.#newer() : this.#older());
      this.stepping = false;
    }
    if (place() >= 0 && place() < this.rows.length) this.pick(place());
  }

  /// `anyway`: what was to be read was read.
  show(anyway) {
    if (!anyway && this.#reach()) return;
    const row = this.rows[this.#chosen()];
    const named = row ?? this.now.resource ?? state.object;
    const kind = named.kind ? kindName(named) : named.resource;
    document.title = `${objectName(state.object)} · kubediff`;
    const gone = !this.now.exists;
    replace(
      this.head,
      h("h1", {}, h("small", {}, kind), " ", objectName(state.object)),
      h("span", { class: "life-state" }, gone ? "deleted" : "exists now"),
      h("span", { class: "soft" }, count(Math.max(this.now.changes, this.rows.length), "change")),
      h("span", { class: "actions" }, h("a", { class: "button", href: link(toTimeline({ owner: [`${named.kind}/${state.object.namespace ? `${state.object.namespace}/` : ""}${state.object.name}`] })), "data-go": "" }, "It and all that belongs to it"), button("Copy link", () => copy(location.href, "the link"))),
    );
    this.#slider();
    this.#history();
    this.#document();
  }

  #slider() {
    if (!this.rows.length) {
      replace(this.time, h("p", { class: "note" }, "It has not changed in all the time that is kept. This is what it is:"));
      return;
    }
    const chosen = this.#chosen();
    const row = this.rows[chosen];
    const times = this.rows.map((one) => Date.parse(one.time));
    // Its whole life, whatever part of it is read.
    const first = Math.min(Date.parse(this.now.first), times[times.length - 1]);
    const end = Math.max(Date.parse(this.now.last), times[0]);
    const last = this.now.exists ? Math.max(Date.now(), end) : end;
    const room = Math.max(1000, (last - first) * 0.02);
    const [from, to] = [first - room, last + (this.now.exists ? 0 : room)];
    const place = (at) => ((at - from) / (to - from)) * 100;
    if (!this.input || !this.time.contains(this.input)) this.#makeSlider();
    Object.assign(this.input, { min: from, max: to, step: 1 });
    // Where somebody slid to, or where the change is.
    const value = state.event ? times[chosen] : instant(state.at) ?? to;
    this.input.value = value;
    this.input.setAttribute("aria-valuetext", `${full(row.time)}: ${row.type}, ${row.summary}`);
    replace(this.marks, this.rows.map((one, index) => svg("line", { class: `${one.type}${index === chosen ? " chosen" : ""}`, x1: `${place(times[index])}%`, x2: `${place(times[index])}%`, y1: index === chosen ? 0 : 6, y2: 26 })));
    if (this.next || this.newer) this.#unread(first, last, place);
    const older = chosen < this.rows.length - 1 || this.next;
    const fresh = chosen > 0 || this.newer;
    const all = this.next || this.newer ? `one of ${count(this.now.changes, "change")}` : `change ${this.rows.length - chosen} of ${this.rows.length}`;
    replace(
      this.where,
      button("← before", () => this.step(-1), { disabled: !older, title: "the change before  [" }),
      h("span", { class: "moment" }, h("b", {}, state.at ? moment(instant(state.at) ?? row.time) : this.now.exists ? "Now" : `Deleted ${moment(row.time)}`), h("span", { class: "soft" }, state.at ? ` ${state.event ? "" : "after "}${all}` : ` since ${moment(row.time)}`)),
      button("after →", () => this.step(1), { disabled: !fresh, title: "the change after  ]" }),
      state.at ? button("Now", () => this.#toNow()) : null,
      state.at || state.compare ? button("Compare with now", () => go({ compare: !state.compare }, { replace: true }), { class: "toggle", "aria-pressed": state.compare }) : null,
    );
    replace(this.ends, h("span", { title: full(first) }, moment(first)), h("span", {}, `${span(last - first)}`), h("span", {}, this.now.exists ? "now" : moment(last)));
  }

  #makeSlider() {
    this.marks = svg("svg", { class: "ticks", height: 26, width: "100%", "aria-hidden": "true" });
    this.where = h("div", { class: "where-in-time" });
    this.ends = h("div", { class: "life-ends", "aria-hidden": "true" });
    this.input = h("input", { type: "range", class: "slider", "aria-label": "Time: each step is a change" });
    this.input.addEventListener("input", () => this.#slid());
    this.input.addEventListener("keydown", (event) => {
      const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
      if (event.key === "Home") this.next ? go({ at: this.now.first, event: undefined }, { replace: true }) : this.pick(this.rows.length - 1);
      else if (event.key === "End") this.#toNow();
      else if (by) this.step(by);
      else return;
      event.preventDefault();
    });
    replace(this.time, this.where, h("div", { class: "track" }, this.marks, this.input), this.ends);
  }

  #toNow() {
    this.sliding?.cancel();
    go({ at: undefined, event: undefined }, { replace: true });
  }

  /// Where there are changes that are not read: their number in the life's parts, read once.
  async #unread(first, last, place) {
    const [from, to] = [this.next ? Date.parse(this.rows[this.rows.length - 1].time) : -Infinity, this.newer ? Date.parse(this.rows[0].time) : Infinity];
    const draw = () => {
      for (const { start, created, updated, deleted } of this.density.buckets) {
        const at = Math.max(first, Date.parse(start) + (this.density.seconds * 1000) / 2);
        if (!(created + updated + deleted) || (at >= from && at <= to) || at > last) continue;
        this.marks.prepend(svg("line", { class: `unread ${deleted ? "deleted" : created ? "created" : "updated"}`, x1: `${place(at)}%`, x2: `${place(at)}%`, y1: 12, y2: 26 }));
      }
    };
    if (this.density) return draw();
    const { group, resource, namespace, name } = state.object;
    // A name with a sign of the filters in it cannot be asked for; its changes are there without marks.
    if (!/^[\w.:-]+$/.test(name)) return undefined;
    const { signal } = this.control;
    this.density = { buckets: [], seconds: 1 };
    try {
      this.density = await api.get("density", { kind: group ? `${resource}.${group}` : resource, namespace: namespace ?? "", name, since: this.now.first, buckets: BUCKETS }, { signal });
      return signal.aborted ? undefined : this.#slider();
    } catch {
      // The slider works without them.
      return undefined;
    }
  }

  #slid() {
    const at = Number(this.input.value);
    if (at >= Number(this.input.max)) return this.#toNow();
    const [before, oldest] = [this.#chosen(), Math.min(Date.parse(this.now.first), Date.parse(this.rows[this.rows.length - 1].time))];
    const time = Math.max(at, oldest);
    // Whole seconds where that makes no difference: the link is read by people.
    const grain = this.input.max - this.input.min > 600_000 ? 1000 : 1;
    const iso = new Date(Math.max(oldest, Math.floor(time / grain) * grain)).toISOString().replace(".000Z", "Z");
    const [when, { rows }] = [Date.parse(iso), this];
    const index = rows.findIndex((row) => Date.parse(row.time) <= when);
    // What is not read is, when the hand rests.
    const unread = (this.next && when < Date.parse(rows[rows.length - 1].time)) || (this.newer && when >= Date.parse(rows[0].time));
    const move = () => go({ at: iso, event: undefined }, { replace: true });
    this.sliding?.cancel();
    // Between two changes nothing is different, but how certain it is may be: that is read when the hand rests.
    if (!unread && (index !== before || !state.at)) return move();
    this.sliding = later(200, move);
    return this.sliding();
  }

  /// What the object was then, with who set each line; read once per change.
  async #document() {
    const row = this.rows[this.#chosen()];
    const when = this.#when();
    const key = when ? `${when.event ?? ""} ${when.at ?? ""}` : "now";
    const asked = (this.asked = {});
    try {
      const deleted = row?.type === "deleted" && this.#past(row);
      if (!this.cache.has(key)) {
        this.cache.set(key, deleted ? api.event(row.id) : api.blame(state.object, when));
      }
      const answer = await this.cache.get(key);
      const other = state.compare && when ? await Promise.all([api.object(state.object, when), api.object(state.object)]) : undefined;
      if (asked !== this.asked) return;
      const doubt = doubtful((other?.[0] ?? answer).doubt, (id) => this.#openEvent(id));
      if (other) replace(this.body, doubt, h("h2", {}, "From then to now"), render(other[0].object, other[1].object, "inline"));
      else if (deleted) replace(this.body, h("p", { class: "note" }, `It was deleted ${moment(row.time)}. As it was last:`), render(answer.before ?? answer.event.object, null, "inline"));
      else if (!answer.exists) replace(this.body, doubt, h("p", { class: "note" }, "It was not there then."));
      else replace(this.body, doubt, blamed(answer.lines, (id) => this.#openEvent(id)));
    } catch (failure) {
      this.cache.delete(key);
      if (asked === this.asked) this.#failed(failure);
    }
  }

  #failed(failure) {
    if (failure.name === "AbortError") return;
    this.past.setAttribute("aria-busy", "false");
    const old = failure.status === 410;
    const title = failure.code === "gap" ? "It is not known what it was then" : old ? "That is older than what is kept" : "It could not be read as it was then";
    replace(this.body, h("div", { class: "trouble", role: "alert" }, h("h3", {}, title), h("p", {}, failure.message), h("p", {}, failure.remedy ?? (old ? "Choose a later change; state.retention_days says how long changes are kept." : "The list of its changes still works.")), button("Try again", () => this.show(), { class: "primary" })));
  }

  /// Whether it is the object's end that is looked at: a deleted one that was made again has a life after it.
  #past(row) {
    return Boolean(state.at) || (row === this.rows[0] && !this.newer);
  }

  #openEvent(id) {
    const item = this.past.querySelector(`[data-id="${CSS.escape(id)}"]`);
    if (!item) return go({ ...toTimeline(), event: id });
    if (item.getAttribute("aria-expanded") !== "true") item.click();
    item.scrollIntoView({ block: "nearest" });
    item.focus({ preventScroll: true });
    return undefined;
  }

  #history() {
    const chosen = this.rows[this.#chosen()];
    const key = `${this.rows.length} ${this.rows[0]?.id} ${this.next} ${this.newer}`;
    if (this.listed !== key || !this.past.childElementCount) {
      this.listed = key;
      const list = h("ol", { class: "parts" }, this.rows.map((row) => this.#change(row)));
      const more = this.next ? button("Show older changes", () => this.#older(), { class: "more" }) : null;
      const newer = this.newer ? button("Show newer changes", () => this.#newer(), { class: "more" }) : null;
      replace(this.past, h("h2", {}, "Changes"), newer, this.rows.length ? list : h("p", { class: "note" }, "None that is kept."), more);
    }
    for (const item of this.past.querySelectorAll("[data-id]")) {
      item.toggleAttribute("data-chosen", item.dataset.id === chosen?.id);
      if (item.dataset.id === chosen?.id) item.setAttribute("aria-current", "true");
      else item.removeAttribute("aria-current");
    }
  }

  #change(row) {
    const item = h("li", {});
    const head = h("button", { type: "button", class: "row compact", "data-id": row.id, "aria-expanded": "false", on: { click: () => toggle() } }, cells(row));
    head.firstChild.textContent = Date.now() - Date.parse(row.time) < 72_000_000 ? clock(row.time) : moment(row.time);
    const toggle = () => {
      const open = head.getAttribute("aria-expanded") === "true";
      head.setAttribute("aria-expanded", !open);
      if (open) item.lastChild.remove();
      else {
        item.append(detail(row.id, { main: false }));
        this.pick(this.rows.indexOf(row));
      }
    };
    item.append(head);
    return item;
  }

  async #older() {
    const page = await this.#further({ cursor: this.next });
    if (!page) return;
    this.rows.push(...page.events);
    this.next = page.next;
    // The one that is looked at stays.
    const over = Math.min(this.rows.length - MOST, this.#chosen());
    if (over > 0) {
      this.rows.splice(0, over);
      this.newer = String(this.rows[0].seq);
    }
    this.show(true);
  }

  async #newer() {
    const page = await this.#further({ cursor: this.newer, order: "asc" });
    if (!page) return;
    this.rows.unshift(...page.events.reverse());
    this.newer = page.next;
    this.#joined();
    if (this.rows.length > MOST && this.#chosen() < MOST) {
      this.rows.length = MOST;
      this.next = String(this.rows[MOST - 1].seq);
    }
    this.show(true);
  }

  /// A page at one of the ends; nothing where it could not be read, which is said, or where the rows are others by now.
  async #further(more) {
    const { rows } = this;
    try {
      const page = await this.#read(more, this.control.signal);
      return rows === this.rows ? page : undefined;
    } catch (failure) {
      return this.#failed(failure);
    }
  }
}

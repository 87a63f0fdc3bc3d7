// The timeline: the strip, the filters, and the list of changes, live.

import * as api from "./api.js";
import { Density } from "./density.js";
import { Parts, detail } from "./detail.js";
import { announce, button, copy, h, later, replace } from "./dom.js";
import { Facets } from "./facets.js";
import { cells, groupCells } from "./row.js";
import { Rows, headline } from "./rollup.js";
import { LISTS, go, link, state, toObject, toggled } from "./state.js";
import { VirtualList } from "./virtual.js";
import { count, day, dayOf, kind, minute, moment, objectName } from "./words.js";

/// Rows asked for at first, and then while scrolling.
const [FIRST, NEXT] = [200, 1000];
/// Rows that are kept while new ones come: on top of a list the oldest are forgotten then, down to the second number, and
/// read again by whoever scrolls there; far down in a longer list new ones are only counted.
const [MOST, KEPT] = [20_000, 18_000];
/// So many items before the end, more are asked for.
const AHEAD = 60;

const narrow = matchMedia("(max-width: 760px)");

export class Timeline {
  constructor({ tail, status }) {
    Object.assign(this, { tail, status });
    this.density = new Density((period) => this.#filter({ ...state.filters, since: period.since, until: period.until }));
    this.facets = new Facets((filters) => this.#filter(filters));
    this.bar = h("div", { class: "bar" });
    this.fresh = button("", () => this.#top(), { class: "fresh-pill", hidden: true });
    this.pinned = h("div", { class: "pinned" });
    this.feed = h("div", { class: "feed", role: "feed", "aria-label": "Changes, newest first", "aria-busy": "true" });
    this.end = h("div", { class: "end-of-feed" });
    this.element = h("div", { class: "timeline-view" }, this.density.element, h("div", { class: "columns" }, this.facets.element, h("section", { class: "timeline", "aria-label": "Timeline" }, this.bar, this.fresh, this.pinned, this.feed, this.end)));
    this.list = new VirtualList(this.feed, {
      render: (item, old) => this.#render(item, old),
      height: (item) => (item.day ? 34 : this.rowHeight),
      measured: (item) => Boolean(item.open),
      drawn: (first, last, from) => this.#drawn(last, from),
    });
    // Many at once are said once.
    this.say = later(800, (last) => {
      announce(`${count(this.unsaid, "new change")}, the latest: ${kind(last)} ${objectName(last)} ${last.type}, ${last.summary}`);
      this.unsaid = 0;
    });
    this.rowHeight = narrow.matches ? 78 : 37;
    this.turned = () => {
      this.rowHeight = narrow.matches ? 78 : 37;
      this.list.relayout();
    };
    narrow.addEventListener("change", this.turned);
    this.keys = {
      j: () => this.#step(1),
      k: () => this.#step(-1),
      o: () => this.#openObject(),
      g: () => this.#top(true),
      G: () => scrollTo({ top: document.documentElement.scrollHeight }),
      Escape: () => this.#escape(),
    };
  }

  close() {
    this.control?.abort();
    this.say.cancel();
    narrow.removeEventListener("change", this.turned);
    for (const part of [this.list, this.density, this.facets]) part.close();
    this.tail.stop();
  }

  /// After the state has changed, and at first.
  update() {
    const wanted = JSON.stringify([state.filters, state.flat]);
    if (wanted !== this.shown) {
      this.shown = wanted;
      this.load();
    } else if (state.event) this.#pin();
    else replace(this.pinned);
  }

  async load() {
    this.control?.abort();
    this.control = new AbortController();
    const { signal } = this.control;
    const { filters } = state;
    this.rows = new Rows(state.flat);
    this.days = new Map();
    this.next = undefined;
    this.unseen = 0;
    this.stale = false;
    this.problem = undefined;
    this.loaded = false;
    this.loading = false;
    this.#bar();
    this.#foot();
    this.density.load(filters);
    this.facets.load(filters);
    this.feed.setAttribute("aria-busy", "true");
    this.waiting = [];
    // The tail first: what happens while the page is read is then in both, and not in neither.
    if (filters.until) this.tail.stop();
    else await this.tail.start(filters);
    if (signal.aborted) return;
    await this.#more(signal, FIRST);
    if (signal.aborted || !this.loaded) return;
    this.tail.lastId ??= this.rows.newestSeq() || undefined;
    const waiting = this.waiting;
    this.waiting = undefined;
    if (waiting.length) this.heard(waiting);
    if (state.event) this.#pin();
  }

  async #more(signal, limit) {
    if (this.loading) return;
    this.loading = true;
    this.#foot();
    let from = 0;
    try {
      const page = await api.events(state.filters, { limit, cursor: this.next }, { signal });
      from = this.rows.addOlder(page.events);
      this.next = page.next;
      this.loaded = true;
      this.problem = undefined;
    } catch (failure) {
      if (failure.name === "AbortError" || signal.aborted) return;
      this.problem = failure;
    } finally {
      if (this.control.signal === signal) this.loading = false;
    }
    this.feed.setAttribute("aria-busy", "false");
    this.#rebuild(from);
    this.#foot();
  }

  /// New rows of the tail.
  heard(rows) {
    if (this.waiting) return this.waiting.push(...rows);
    const away = this.feed.getBoundingClientRect().top < -40;
    if (this.stale || (away && this.rows.count >= MOST)) {
      this.stale = true;
      this.unseen += rows.length;
    } else {
      const touched = this.rows.addNewer(rows);
      if (!touched.length) return undefined;
      for (const group of touched) group.fresh = Date.now();
      if (away) this.unseen += touched.length;
      // What is being read goes on where the list ends.
      else if (this.rows.count > MOST && !this.loading) this.next = String(this.rows.forget(KEPT));
      this.#rebuild();
      this.#foot();
    }
    this.density.add(rows);
    this.facets.again();
    this.unsaid = (this.unsaid ?? 0) + rows.length;
    this.say(rows[rows.length - 1]);
    return this.#pill();
  }

  /// The tail is back, or was paused: what failed before is tried again.
  recovered() {
    if (!this.problem) return;
    if (this.loaded) this.#more(this.control.signal, NEXT);
    else {
      this.loading = false;
      this.load();
    }
  }

  /// The items of the list, from a group on: those before it are as they were.
  #rebuild(from = 0) {
    const { groups } = this.rows;
    const anchor = this.list.anchor();
    const before = groups[from - 1];
    const items = before ? this.list.items : [];
    const keep = before ? before.index + 1 : 0;
    items.length = keep;
    let today = before?.date;
    for (let order = from; order < groups.length; order += 1) {
      const group = groups[order];
      if (group.dated !== group.from) Object.assign(group, { dated: group.from, date: dayOf(group.from) });
      const { date } = group;
      if (date !== today) {
        today = date;
        items.push(this.days.get(date) ?? this.#day(date, group.from));
      }
      group.position = order + 1;
      items.push(group);
    }
    this.list.setItems(items, keep, anchor);
  }

  #day(date, day) {
    const item = { key: `day-${date}`, day };
    this.days.set(date, item);
    return item;
  }

  #render(item, old) {
    if (item.day) return old ?? h("h2", { class: "day" }, day(item.day));
    const article = old ?? h("article", { class: "ev" }, h("button", { type: "button", class: "row", on: { click: () => this.toggle(article.item) } }));
    const head = article.firstChild;
    const row = headline(item);
    replace(head, groupCells(item));
    head.setAttribute("aria-expanded", Boolean(item.open));
    article.setAttribute("aria-label", `${row.type} ${kind(row)} ${objectName(row)}`);
    article.classList.toggle("open", Boolean(item.open));
    article.classList.toggle("by-hand", Boolean(row.hand));
    article.classList.toggle("fresh", Boolean(item.fresh && Date.now() - item.fresh < 2000));
    if (item.open) {
      // Kept while the row is out of sight, so that it comes back as it was left.
      item.body ??= this.#body(item, item.opened ?? row.id);
      item.body.parts.set(item.rows.filter((one) => one.id !== item.body.main).reverse());
      if (article.lastChild !== item.body) article.append(item.body);
    } else if (article.childElementCount > 1) article.lastChild.remove();
    return article;
  }

  /// It goes on to be about the change with which it was opened, also when another one comes to stand for the rollout.
  #body(item, main) {
    const parts = new Parts(item.ends ? "With it" : "Rollout");
    return Object.assign(detail(main, { parts }), { main, parts });
  }

  #drawn(last, from) {
    const size = this.next ? -1 : this.rows.groups.length;
    for (const element of this.list.elements.values()) {
      const { position } = element.item;
      if (!position || (element.position === position && element.size === size)) continue;
      Object.assign(element, { position, size });
      element.setAttribute("aria-posinset", position);
      element.setAttribute("aria-setsize", size);
    }
    if (from < 40 && this.unseen) {
      this.unseen = 0;
      this.#pill();
      if (this.stale) {
        this.stale = false;
        // Not while it is drawn.
        queueMicrotask(() => this.load());
      }
    }
    if (this.next && !this.loading && !this.problem && last >= this.list.items.length - AHEAD) this.#more(this.control.signal, NEXT);
  }

  toggle(group, id) {
    group.open = !group.open;
    group.opened = id;
    group.body = undefined;
    group.version += 1;
    const tab = group.open ? state.tab : undefined;
    go({ event: group.open ? id ?? headline(group).id : undefined, tab }, { quiet: true, replace: true });
    this.list.refresh();
  }

  /// Shows the change that the URL names: in the list, or above it when it is not among those that are loaded.
  #pin() {
    const id = state.event;
    const group = this.rows.groups.find((one) => one.rows.some((row) => row.id === id));
    if (group) {
      replace(this.pinned);
      if (group.open) return;
      const { tab } = state;
      group.open = true;
      group.opened = headline(group).id === id ? undefined : id;
      group.body = undefined;
      group.version += 1;
      go({ tab }, { quiet: true, replace: true });
      this.list.refresh();
      this.list.reveal(group, { top: group.position > 4 })?.firstChild.focus({ preventScroll: true });
      return;
    }
    if (this.pinned.dataset.id === id && this.pinned.childElementCount) return;
    this.pinned.dataset.id = id;
    const title = h("span", {}, "The change that the link names");
    const around = button("Show what changed around it", async () => {
      const { event } = await api.event(id);
      const at = Date.parse(event.time);
      const iso = (ms) => new Date(ms).toISOString();
      this.#filter({ since: iso(at - 600_000), until: at + 600_000 > Date.now() ? undefined : iso(at + 600_000) }, id);
    });
    const close = button("Close", () => go({ event: undefined, tab: undefined }, { replace: true }));
    const head = h("div", { class: "row static" });
    replace(this.pinned, h("article", { class: "ev open", "aria-label": "The change that the link names" }, h("div", { class: "pin-head" }, title, around, close), head, detail(id)));
    api.event(id).then(({ event, hand }) => {
      replace(head, cells({ ...event.resource, ...event, hand, managers: (event.actors ?? []).map((actor) => actor.manager) }));
      replace(title, `The change that the link names, of ${moment(event.time)}`);
    }, () => head.remove());
  }

  #filter(filters, event) {
    const clean = Object.fromEntries(Object.entries(filters).filter(([, value]) => value?.length));
    go({ filters: clean, event, tab: undefined });
    if (this.feed.getBoundingClientRect().top < 0) scrollTo({ top: 0, behavior: "instant" });
  }

  /// The filters one by one, each of which can be taken away.
  #bar() {
    const { filters } = state;
    const without = (name) => () => this.#filter({ ...filters, [name]: undefined });
    const chips = [];
    const chip = (text, remove) => chips.push(h("li", {}, button([text, h("span", { "aria-hidden": "true", class: "x" }, "×")], remove, { class: "chip", "aria-label": `remove the filter ${text}` })));
    for (const name of LISTS) {
      for (const value of filters[name] ?? []) {
        const text = value.replace(/^!/, "");
        chip(`${name} ${value.startsWith("!") ? "not " : ""}${text === "" ? "(none)" : text}`, () => this.#filter(toggled(filters, name, text, value.startsWith("!"))));
      }
    }
    if (filters.hand) chip(filters.hand === "true" ? "made by hand" : "not made by hand", without("hand"));
    if (filters.q) chip(`“${filters.q}”`, without("q"));
    const when = (value) => (/^\d+[smhdw]$/.test(value) ? `${value} ago` : Number.isNaN(Date.parse(value)) ? value : moment(value));
    if (filters.since) chip(`since ${when(filters.since)}`, without("since"));
    if (filters.until) chip(`until ${when(filters.until)}`, without("until"));
    const clear = chips.length > 1 ? button("Clear all", () => this.#filter({}), { class: "quiet" }) : null;
    const drawer = button("Filters", () => drawer.setAttribute("aria-expanded", document.body.classList.toggle("facets-open")), { class: "drawer", "aria-controls": "facets", "aria-expanded": document.body.classList.contains("facets-open") });
    const flat = button("Rolled up", () => go({ flat: !state.flat, event: undefined }), { class: "toggle", "aria-pressed": !state.flat, title: "one row per rollout, or one per change" });
    replace(this.bar, drawer, h("ul", { class: "chips", "aria-label": "Active filters" }, chips), clear, flat);
  }

  #foot() {
    const filtered = Object.keys(state.filters).length > 0;
    if (this.problem) {
      const what = this.loaded ? `What is shown was read before and is right; older changes could not be read: ${this.problem.message}` : this.problem.message;
      return replace(this.end, h("div", { class: "trouble", role: "alert" }, h("h3", {}, this.loaded ? "The list could not go on" : "The timeline could not be read"), h("p", {}, what), this.problem.remedy ? h("p", {}, this.problem.remedy) : null, button("Try again", () => this.recovered(), { class: "primary" })));
    }
    if (this.loading || !this.loaded) return replace(this.end, h("p", { class: "note" }, "Reading …"));
    if (!this.rows.count) return replace(this.end, filtered ? this.#nothingMatches() : this.#nothingYet());
    if (this.next) return replace(this.end);
    return replace(this.end, h("p", { class: "note" }, `${count(this.rows.count, "change")} in all. ${filtered ? "No older one matches." : "Nothing older is kept."}`));
  }

  #nothingMatches() {
    const { filters } = state;
    const period = filters.since || filters.until;
    return h(
      "div",
      { class: "empty" },
      h("h3", {}, "No change matches"),
      h("p", {}, filters.until ? "Take a filter away above, or look at a longer period." : "New ones appear here as they are made. Or take a filter away above."),
      h("p", { class: "choices" }, period ? button("Look at all that is kept", () => this.#filter({ ...filters, since: undefined, until: undefined }), { class: "primary" }) : null, button("Clear all filters", () => this.#filter({}))),
    );
  }

  #nothingYet() {
    const status = this.status();
    const command = "kubectl create configmap hello --from-literal=a=1";
    const watches = status?.informers?.length;
    return h(
      "div",
      { class: "empty" },
      h("h3", {}, status?.started ? `Nothing has changed since ${dayOf(status.started) === dayOf(Date.now()) ? minute(status.started) : moment(status.started)}` : "Nothing has changed yet"),
      h("p", {}, watches ? `kubediff watches ${count(watches, "resource")} and shows every change here as it is made. Try one:` : "kubediff shows every change here as it is made. Try one:"),
      h("p", { class: "try" }, h("code", {}, command), button("Copy", () => copy(command, "the command"))),
      h("p", {}, h("a", { href: link({ view: "health", filters: {} }), "data-go": "" }, "See whether every watch is healthy")),
    );
  }

  #pill() {
    this.fresh.hidden = !this.unseen;
    if (this.unseen) replace(this.fresh, `↑ ${count(this.unseen, "new change")}`);
  }

  #top(focus) {
    scrollTo({ top: 0, behavior: "instant" });
    this.list.draw();
    if (focus && this.rows.groups[0]) this.list.reveal(this.rows.groups[0])?.firstChild.focus({ preventScroll: true });
  }

  #current() {
    const key = document.activeElement?.closest?.(".feed > [data-key]")?.dataset.key;
    return this.rows.groups.findIndex((group) => group.key === key);
  }

  #step(by) {
    const { groups } = this.rows;
    const at = this.#current();
    const next = groups[at < 0 ? this.#firstInSight() : Math.max(0, Math.min(groups.length - 1, at + by))];
    if (next) this.list.reveal(next)?.firstChild.focus({ preventScroll: true });
  }

  #firstInSight() {
    const seen = [...this.list.elements.entries()].filter(([, one]) => one.classList.contains("ev") && one.getBoundingClientRect().top >= 56);
    const keys = new Set(seen.map(([key]) => key));
    return Math.max(0, this.rows.groups.findIndex((group) => keys.has(group.key)));
  }

  #openObject() {
    const group = this.rows.groups[this.#current()];
    if (!group) return false;
    return go(toObject(headline(group)));
  }

  #escape() {
    const group = this.rows.groups[this.#current()];
    if (group?.open) {
      this.toggle(group);
      this.list.element(group.key)?.firstChild.focus({ preventScroll: true });
    } else if (state.event) go({ event: undefined, tab: undefined }, { replace: true });
    else document.activeElement?.blur();
  }
}


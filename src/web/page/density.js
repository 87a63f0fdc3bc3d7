// The strip on top: how much changed when. Drag to zoom; a second, thin strip then shows where in the whole one is.

import * as api from "./api.js";
import { button, h, later, replace, svg } from "./dom.js";
import { clock, dayOf, full, instant, minute, number, shortDay, span } from "./words.js";

const TYPES = ["updated", "created", "deleted"];
const PRESETS = ["15m", "1h", "6h", "1d", "7d"];
/// Shorter than this, or than a tenth of a history that is itself of seconds, there is nothing to zoom into.
const SHORTEST = 2000;
/// Bars are no wider than this.
const WIDEST = 28;

export class Density {
  /// `choose({since, until})` is called with what was dragged over, and with nothing for the whole period.
  constructor(choose) {
    this.choose = choose;
    this.main = new Strip(this, "strip-main", 72);
    this.whole = new Strip(this, "strip-whole", 18);
    this.whole.element.hidden = true;
    this.note = h("span", { class: "period" });
    this.presets = h("span", { class: "presets", role: "group", "aria-label": "Period" });
    this.element = h("section", { class: "density", "aria-label": "Changes over time" }, h("div", { class: "density-head" }, this.note, this.presets), this.whole.element, this.main.element);
    // Counting a long history takes the server a while: the longer it took, the longer it is left alone.
    this.again = later(1500, () => (document.hidden || Date.now() < this.rest ? this.again() : this.load(this.filters)));
    this.onResize = later(150, () => this.draw());
    addEventListener("resize", this.onResize);
  }

  close() {
    removeEventListener("resize", this.onResize);
    this.again.cancel();
    this.control?.abort();
  }

  async load(filters) {
    this.filters = filters;
    this.control?.abort();
    this.control = new AbortController();
    const { signal } = this.control;
    const buckets = Math.max(40, Math.min(240, Math.floor((this.element.clientWidth || 1200) / 8)));
    const { since, until, ...rest } = filters;
    const began = Date.now();
    try {
      const zoomed = Boolean(since || until);
      const [main, whole] = await Promise.all([
        api.get("density", { ...filters, buckets }, { signal }),
        zoomed ? api.get("density", { ...rest, buckets }, { signal }) : null,
      ]);
      Object.assign(this, { data: main, overview: whole, rest: Date.now() + 20 * (Date.now() - began) });
      this.draw();
    } catch (failure) {
      if (failure.name === "AbortError") return;
      replace(this.note, `The strip could not be read: ${failure.message}`);
    }
  }

  /// Rows that came live are drawn at once; the numbers are read again a little later.
  add(rows) {
    if (!this.data?.buckets.length) return this.again();
    const { buckets, seconds } = this.data;
    for (const { time, type } of rows) {
      const start = Date.parse(buckets[0].start);
      const at = Math.min(buckets.length - 1, Math.max(0, Math.floor((Date.parse(time) - start) / (seconds * 1000))));
      buckets[at][type] += 1;
    }
    this.main.draw(this.data);
    this.#say();
    return this.again();
  }

  draw() {
    if (!this.data) return;
    this.main.draw(this.data);
    this.whole.element.hidden = !this.overview;
    if (this.overview) this.whole.draw(this.overview, [Date.parse(this.data.since), Date.parse(this.data.until)]);
    this.#say();
    const { since, until } = this.filters;
    const preset = (text) => button(text, () => this.choose({ since: text }), { "aria-pressed": since === text && !until, title: `the last ${text}` });
    const length = (this.overview ?? this.data) && Date.parse((this.overview ?? this.data).until) - Date.parse((this.overview ?? this.data).since);
    replace(this.presets, PRESETS.filter((text) => Date.now() - instant(text) < length * 1.5).map(preset), button("All", () => this.choose({}), { "aria-pressed": !since && !until, title: "all that is kept" }));
  }

  #say() {
    const { since, until, buckets, partial, counted_since: counted } = this.data;
    const total = buckets.reduce((sum, one) => sum + one.created + one.updated + one.deleted, 0);
    const [from, to] = [Date.parse(since), Date.parse(until)];
    const sameDay = dayOf(from) === dayOf(to);
    const live = !this.filters.until;
    const end = live ? "now" : sameDay ? clock(to) : `${shortDay(to)} ${minute(to)}`;
    if (!total && to - from < 1000) return replace(this.note, h("span", { class: "soft" }, Object.keys(this.filters).length ? "No change matches" : "No change yet"));
    const begin = (time) => (sameDay ? clock(time) : `${shortDay(time)} ${minute(time)}`);
    const more = partial ? h("span", { title: "so many match that the older ones were not counted" }, "more than ") : null;
    const older = counted && Date.parse(counted) > from ? `; those before ${begin(Date.parse(counted))} not counted` : "";
    return replace(this.note, more, h("b", {}, number(total)), total === 1 ? " change" : " changes", h("span", { class: "soft" }, ` in ${span(to - from)}, ${begin(from)} to ${end}${older}`));
  }

  /// Left and right move what is zoomed into, plus and minus zoom.
  key(pressed) {
    const [from, to] = [Date.parse(this.data.since), Date.parse(this.data.until)];
    const [size, middle] = [to - from, (from + to) / 2];
    const range = { ArrowLeft: [from - size / 4, to - size / 4], ArrowRight: [from + size / 4, to + size / 4], "+": [middle - size / 4, middle + size / 4], "-": [middle - size, middle + size] }[pressed.key];
    if (!range) return;
    pressed.preventDefault();
    this.pick(...range);
  }

  pick(from, to) {
    const all = this.overview ?? this.data;
    const [first, last] = [Date.parse(all.since), Date.parse(all.until)];
    const shortest = Math.min(SHORTEST, (last - first) / 10);
    if (to - from < shortest) [from, to] = [(from + to - shortest) / 2, (from + to + shortest) / 2];
    if (from <= first && to >= last) return this.choose({});
    // Whole seconds where that makes no difference: the link is read by people.
    const grain = to - from > 60_000 ? 1000 : 1;
    const iso = (ms) => new Date(Math.round(ms / grain) * grain).toISOString().replace(".000Z", "Z");
    return this.choose({ since: iso(Math.max(first, from)), until: to >= Math.min(last, Date.now()) ? undefined : iso(to) });
  }
}

/// Bars, an axis, and dragging.
class Strip {
  constructor(density, name, height) {
    this.height = height;
    this.density = density;
    this.picture = svg("svg", { preserveAspectRatio: "none", height, "aria-hidden": "true" });
    this.axis = h("div", { class: "axis", "aria-hidden": "true" });
    this.tip = h("div", { class: "tip", hidden: true });
    this.box = h("div", { class: "bars", role: "slider", tabindex: name === "strip-main" ? "0" : "-1", "aria-label": "Period shown: arrows move it, plus and minus zoom" }, this.picture, this.tip);
    this.element = h("div", { class: `strip ${name}` }, this.box, name === "strip-main" ? this.axis : null);
    this.box.addEventListener("pointerdown", (event) => this.#down(event));
    this.box.addEventListener("pointermove", (event) => this.#move(event));
    this.box.addEventListener("pointerup", (event) => this.#up(event));
    this.box.addEventListener("pointercancel", () => this.#drop());
    this.box.addEventListener("pointerleave", () => (this.tip.hidden = true));
    this.box.addEventListener("keydown", (event) => (event.key === "Escape" ? this.#drop() : density.key(event)));
  }

  draw(data, window) {
    this.data = data;
    const { buckets, seconds } = data;
    const width = this.box.clientWidth || 1000;
    const { height } = this;
    const [from, to] = this.#ends();
    const each = Math.min(width, ((seconds * 1000) / (to - from)) * width);
    // The first may begin before the period: long buckets begin with a whole minute or hour.
    const start = buckets.length ? Date.parse(buckets[0].start) : from;
    // A history of seconds has few buckets: broad ones would look like much.
    const wide = Math.max(1, Math.min(WIDEST, each > 4 ? each - 1.5 : each));
    const most = Math.max(4, ...buckets.map((one) => one.created + one.updated + one.deleted));
    const paths = { updated: "", created: "", deleted: "" };
    buckets.forEach((bucket, index) => {
      const total = bucket.created + bucket.updated + bucket.deleted;
      if (!total) return;
      // Roots, so that a burst does not flatten everything else.
      const tall = Math.max(3, Math.sqrt(total / most) * (height - 4));
      let y = height;
      for (const type of TYPES) {
        if (!bucket[type]) continue;
        const part = Math.max(1, (bucket[type] / total) * tall);
        y -= part;
        const left = ((start + index * seconds * 1000 - from) / (to - from)) * width;
        const x = Math.max(0, Math.min(width - wide, left + (each > WIDEST ? (each - wide) / 2 : 0)));
        paths[type] += `M${x.toFixed(1)} ${y.toFixed(1)}h${wide.toFixed(1)}v${part.toFixed(1)}h${(-wide).toFixed(1)}z`;
      }
    });
    this.picture.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.shade = svg("rect", { class: "shade", y: 0, height, width: 0, x: 0 });
    const uncounted = this.#uncounted(data.counted_since, ((Date.parse(data.counted_since) - from) / (to - from)) * width);
    replace(this.picture, uncounted, TYPES.map((type) => svg("path", { class: type, d: paths[type] })), svg("path", { class: "ground", d: `M0 ${height - 0.5}H${width}` }), this.shade);
    if (window) this.#shade(((window[0] - from) / (to - from)) * width, ((window[1] - from) / (to - from)) * width);
    this.box.setAttribute("aria-valuetext", `${full(from)} to ${full(to)}`);
    this.box.setAttribute("aria-valuenow", "0");
    replace(this.axis, ticks(from, to, Math.max(2, Math.floor(width / 110))).map(([at, text]) => {
      const tick = h("span", {}, text);
      tick.style.left = `${((at - from) / (to - from)) * 100}%`;
      return tick;
    }), h("span", { class: "end" }, this.density.filters.until ? "" : "now"));
  }

  /// What is too old to have been counted is hatched: no bar does not mean no change there.
  #uncounted(counted, end) {
    if (!counted || !(end > 0)) return null;
    let lines = "";
    for (let x = -this.height; x < end; x += 8) {
      const [low, high] = [Math.max(0, -x), Math.min(this.height, end - x)];
      lines += `M${(x + low).toFixed(1)} ${this.height - low}L${(x + high).toFixed(1)} ${this.height - high}`;
    }
    return svg("path", { class: "uncounted", d: lines });
  }

  /// Never nothing, so that places can be told apart.
  #ends() {
    const to = Date.parse(this.data.until);
    return [Math.min(Date.parse(this.data.since), to - 1000), to];
  }

  #shade(a, b) {
    const [x, end] = [Math.max(0, Math.min(a, b)), Math.max(a, b)];
    this.shade.setAttribute("x", x);
    this.shade.setAttribute("width", Math.max(2, end - x));
  }

  #x(event) {
    const box = this.box.getBoundingClientRect();
    return Math.max(0, Math.min(box.width, event.clientX - box.left));
  }

  #down(event) {
    if (event.button || !this.data) return;
    this.from = this.#x(event);
    this.box.setPointerCapture(event.pointerId);
  }

  #move(event) {
    if (!this.data) return;
    const x = this.#x(event);
    if (this.from !== undefined) this.#shade(this.from, x);
    this.#point(x);
  }

  #up(event) {
    if (this.from === undefined) return;
    const [a, b] = [Math.min(this.from, this.#x(event)), Math.max(this.from, this.#x(event))];
    const width = this.box.clientWidth;
    const [from, to] = this.#ends();
    const time = (x) => from + (x / width) * (to - from);
    this.from = undefined;
    if (b - a < 4) {
      // A click is the bucket below it and its neighbours.
      const each = this.data.seconds * 1000;
      return this.density.pick(time(a) - 2 * each, time(a) + 2 * each);
    }
    return this.density.pick(time(a), time(b));
  }

  #drop() {
    this.from = undefined;
    if (this.data) this.density.draw();
  }

  #point(x) {
    const { buckets, seconds } = this.data;
    const width = this.box.clientWidth;
    const [from, to] = this.#ends();
    if (!buckets.length) return;
    const time = from + (x / width) * (to - from);
    const bucket = buckets[Math.max(0, Math.min(buckets.length - 1, Math.floor((time - Date.parse(buckets[0].start)) / (seconds * 1000))))];
    const start = Date.parse(bucket.start);
    const said = [["+", bucket.created], ["~", bucket.updated], ["-", bucket.deleted]].filter(([, n]) => n).map(([sign, n]) => `${sign} ${number(n)}`).join("   ");
    this.tip.hidden = false;
    replace(this.tip, h("b", {}, `${seconds >= 86400 ? shortDay(start) : `${dayOf(start) === dayOf(Date.now()) ? "" : `${shortDay(start)}, `}${clock(start)}`}`), ` ${said || (start < Date.parse(this.data.counted_since) ? "not counted" : "nothing")}`);
    this.tip.style.left = `${Math.max(60, Math.min(width - 60, x))}px`;
  }
}

const STEPS = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800].map((s) => s * 1000);

/// Round times between two, at most so many, with how to write them.
export function ticks(from, to, most) {
  const step = STEPS.find((one) => (to - from) / one <= most) ?? STEPS[STEPS.length - 1];
  const zone = new Date(from).getTimezoneOffset() * 60_000;
  const out = [];
  for (let at = Math.ceil((from - zone) / step) * step + zone; at < to - step * 0.35; at += step) {
    if (at - from < (to - from) * 0.01) continue;
    const midnight = minute(at) === "00:00";
    out.push([at, step < 60_000 ? clock(at) : midnight || step >= 86_400_000 ? shortDay(at) : minute(at)]);
  }
  return out;
}

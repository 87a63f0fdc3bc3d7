// A list of any length of which only what is in sight is in the document. It scrolls with the window.

/// How much beyond the window is drawn, so that scrolling does not show gaps.
const BEYOND = 600;

export class VirtualList {
  /// `render(item, old)` gives the element of an item, `old` being the one it had; `height(item)` what it is expected to
  /// take, until it is measured, which happens to items for which `measured(item)` holds.
  constructor(place, { render, height, measured, drawn }) {
    Object.assign(this, { place, render, height, measured, drawn });
    this.items = [];
    this.tops = new Float64Array(1);
    this.elements = new Map();
    this.resized = new ResizeObserver((entries) => this.#measure(entries));
    this.scrolled = () => {
      this.frame ??= requestAnimationFrame(() => {
        this.frame = undefined;
        this.draw();
      });
    };
    addEventListener("scroll", this.scrolled, { passive: true });
    addEventListener("resize", this.scrolled, { passive: true });
  }

  close() {
    removeEventListener("scroll", this.scrolled);
    removeEventListener("resize", this.scrolled);
    cancelAnimationFrame(this.frame);
    this.resized.disconnect();
  }

  /// Items are objects with a `key` of their own and a `version` that grows when they look different; the list keeps
  /// their `index` and their measured `height` in them. What the reader looks at stays where it is, unless the top is in
  /// sight: there the newest shall appear. `from`: those before it are as they were.
  setItems(items, from = 0, anchor = this.anchor()) {
    this.items = items;
    for (let index = from; index < items.length; index += 1) items[index].index = index;
    this.#layout(anchor, from);
  }

  #has(item) {
    return item !== undefined && this.items[item.index] === item;
  }

  /// After the height of rows has changed, as on a turned phone.
  relayout() {
    this.#layout(this.anchor());
  }

  /// What the reader looks at, to be asked before the items change.
  anchor() {
    const from = this.#origin();
    if (from <= 0) return undefined;
    const item = this.items[this.#at(from)];
    return item && { item, by: this.tops[item.index] - from };
  }

  #layout(anchor, from = 0) {
    const { items } = this;
    if (this.tops.length <= items.length) {
      // Room for more, so that a list that grows is not copied each time.
      const tops = new Float64Array(2 * items.length + 1);
      tops.set(this.tops);
      this.tops = tops;
    }
    const { tops } = this;
    for (let index = from; index < items.length; index += 1) {
      tops[index + 1] = tops[index] + (items[index].height ?? this.height(items[index]));
    }
    this.place.style.height = `${tops[items.length]}px`;
    if (anchor && this.#has(anchor.item)) {
      const by = tops[anchor.item.index] - anchor.by - this.#origin();
      if (Math.abs(by) >= 1) scrollBy({ top: by, behavior: "instant" });
    }
    this.draw();
  }

  #measure(entries) {
    let changed = false;
    for (const { target } of entries) {
      const height = target.offsetHeight;
      if (!height || this.elements.get(target.dataset.key) !== target) continue;
      if (Math.abs((target.item.height ?? 0) - height) < 1) continue;
      target.item.height = height;
      changed = true;
    }
    if (changed) this.relayout();
  }

  /// How far the list's top is above the window's.
  #origin() {
    return -this.place.getBoundingClientRect().top;
  }

  /// The item at a distance from the list's top.
  #at(y) {
    let [low, high] = [0, this.items.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.tops[middle] <= y) low = middle;
      else high = middle - 1;
    }
    return Math.max(0, low);
  }

  draw() {
    const from = this.#origin();
    const first = this.#at(from - BEYOND);
    const last = this.items.length ? this.#at(from + innerHeight + BEYOND) : -1;
    const wanted = new Map();
    for (let index = first; index <= last; index += 1) wanted.set(this.items[index].key, index);
    // The focus would be lost with the element that has it.
    const focused = document.activeElement?.closest?.("[data-key]");
    if (focused && this.place.contains(focused) && this.#has(focused.item)) {
      wanted.set(focused.dataset.key, focused.item.index);
    }
    for (const [key, element] of this.elements) {
      if (wanted.has(key)) continue;
      this.resized.unobserve(element);
      element.remove();
      this.elements.delete(key);
    }
    let before = null;
    for (const [key, index] of [...wanted].sort((a, b) => b[1] - a[1])) {
      const item = this.items[index];
      let element = this.elements.get(key);
      const drawn = element && Number(element.dataset.version);
      // A list that was read anew has new items with the old keys.
      if (!element || element.item !== item || drawn !== (item.version ?? 0)) {
        const made = this.render(item, element, index);
        if (made !== element) {
          if (element) {
            this.resized.unobserve(element);
            element.replaceWith(made);
          }
          this.elements.set(key, made);
          element = made;
        }
        element.item = item;
        element.dataset.key = key;
        element.dataset.version = item.version ?? 0;
        if (this.measured(item)) this.resized.observe(element);
        else {
          this.resized.unobserve(element);
          if (item.height !== undefined) {
            item.height = undefined;
            queueMicrotask(() => this.relayout());
          }
        }
      }
      if (element.offset !== this.tops[index]) {
        element.offset = this.tops[index];
        element.style.top = `${element.offset}px`;
      }
      if (element.nextSibling !== before || element.parentNode !== this.place) this.place.insertBefore(element, before);
      before = element;
    }
    this.drawn?.(first, last, from);
  }

  /// Draws an item again whose version has grown.
  refresh() {
    this.relayout();
  }

  element(key) {
    return this.elements.get(key);
  }

  /// Scrolls as far as is needed to see the item, or until it is on `top`, and draws it. `below` is what covers the
  /// window's top.
  reveal(item, { top: onTop = false, below = innerWidth > 760 ? 72 : 8 } = {}) {
    if (!this.#has(item)) return undefined;
    const { index } = item;
    const origin = this.#origin();
    const [top, bottom] = [this.tops[index], this.tops[index + 1]];
    if (onTop || top < origin + below) scrollBy({ top: top - origin - below, behavior: "instant" });
    else if (bottom > origin + innerHeight - 12) {
      scrollBy({ top: Math.min(bottom - origin - innerHeight + 12, top - origin - below), behavior: "instant" });
    }
    this.draw();
    return this.elements.get(item.key);
  }
}

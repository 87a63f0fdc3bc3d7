// What there is to filter by, with counts. A click keeps only such changes, the minus leaves them out.

import * as api from "./api.js";
import { button, h, later, replace } from "./dom.js";
import { toggled } from "./state.js";
import { number } from "./words.js";

const TITLES = { type: "Type", class: "Class", manager: "Changed by", namespace: "Namespace", kind: "Kind" };
/// Values that are shown before one asks for more.
const FEW = { type: 3, class: 8, manager: 6, namespace: 8, kind: 8 };

export class Facets {
  constructor(choose) {
    this.choose = choose;
    this.wide = new Set();
    this.body = h("div", { class: "facet-groups" });
    this.element = h("aside", { class: "facets", id: "facets", "aria-label": "Filters" }, this.body);
    // Counting a long history takes the server a while: the longer it took, the longer it is left alone.
    this.again = later(1500, () => (document.hidden || Date.now() < this.rest ? this.again() : this.load(this.filters)));
  }

  close() {
    this.again.cancel();
    this.control?.abort();
  }

  async load(filters) {
    this.filters = filters;
    this.control?.abort();
    this.control = new AbortController();
    const began = Date.now();
    try {
      this.data = await api.get("facets", filters, { signal: this.control.signal });
      this.rest = Date.now() + 20 * (Date.now() - began);
      this.draw();
    } catch (failure) {
      if (failure.name !== "AbortError" && !this.data) replace(this.body, h("p", { class: "note" }, "The filters could not be counted. The search box still works."));
    }
  }

  draw() {
    const focused = document.activeElement?.dataset?.facet;
    replace(this.body, this.#hand(), Object.keys(TITLES).map((name) => this.#group(name)));
    if (focused) this.body.querySelector(`[data-facet="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  #hand() {
    const on = this.filters.hand === "true";
    const next = { ...this.filters, hand: on ? undefined : "true" };
    return h("div", { class: "facet-group" }, h("ul", {}, h("li", {}, button(["Made by hand"], () => this.choose(next), { class: "facet solo", "aria-pressed": on, "data-facet": "hand" }))));
  }

  #group(name) {
    const chosen = this.filters[name] ?? [];
    const known = (this.data[name] ?? []).map(({ value, count }) => [value, count]);
    const missing = chosen.map((value) => value.replace(/^!/, "")).filter((value) => !known.some(([one]) => one === value));
    const all = [...missing.map((value) => [value, undefined]), ...known];
    if (!all.length) return null;
    const isChosen = (value) => chosen.includes(value) || chosen.includes(`!${value}`);
    const few = this.wide.has(name) ? all.length : FEW[name];
    const shown = all.filter(([value], index) => index < few || isChosen(value));
    const rest = all.length - shown.length;
    const id = `facet-${name}`;
    return h(
      "div",
      { class: "facet-group" },
      h("h3", { id }, TITLES[name]),
      h("ul", { "aria-labelledby": id }, shown.map(([value, count]) => this.#value(name, value, count, chosen))),
      rest > 0 ? button(`${rest} more`, () => (this.wide.add(name), this.draw()), { class: "facet-more" }) : null,
    );
  }

  #value(name, value, count, chosen) {
    const [kept, out] = [chosen.includes(value), chosen.includes(`!${value}`)];
    const label = value === "" ? "(cluster-wide)" : value;
    const pick = (exclude) => () => this.choose(toggled(this.filters, name, value, exclude));
    return h(
      "li",
      {},
      h("button", { type: "button", class: `facet${out ? " out" : ""}`, "aria-pressed": kept || out, "data-facet": `${name}:${value}`, title: label, on: { click: out ? pick(true) : pick(false) } }, h("span", {}, label), h("span", { class: "count" }, count === undefined ? "" : `${number(count)}${this.data.partial ? "+" : ""}`)),
      button("−", pick(true), { class: "facet-out", "aria-label": out ? `stop leaving out ${label}` : `leave out ${label}`, title: "leave out" }),
    );
  }
}

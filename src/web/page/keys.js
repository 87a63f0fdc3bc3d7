// The keyboard: one place that knows every key, and says so when asked.

import { button, h } from "./dom.js";

const HELP = [
  ["j  k", "next and previous row"],
  ["Enter", "open and close a row"],
  ["o", "the object of a row, with its whole history"],
  ["/", "search and filter"],
  ["p", "pause and resume the live tail"],
  ["g  G", "to the newest, to the oldest that is loaded"],
  ["[  ]", "on an object: the change before, the change after"],
  ["t", "the timeline"],
  ["h", "health of watches and sinks"],
  ["d", "dark and light"],
  ["Esc", "close what is open, clear what is marked"],
  ["?", "this list"],
];

const FILTERS = [
  ["namespace:shop", "in this namespace; ns: for short"],
  ["kind:deploy,ds", "of these kinds, by name or short name"],
  ["class:image", "what sort of change: image, scale, rbac, data …"],
  ["manager:kubectl*", "who; by: for short"],
  ["type:deleted", "created, updated, deleted"],
  ["name:web-*", "a name or a pattern"],
  ["owner:Deployment/shop/web", "it and all that belongs to it"],
  ["hand:true", "made by a person's own tool"],
  ["since:2h until:30m", "a period: ages or times"],
  ["namespace:!kube-system", "! leaves out"],
  ["nginx timeout", "all of these words in what changed"],
];

export class Keys {
  constructor() {
    this.handlers = {};
    addEventListener("keydown", (event) => this.#pressed(event));
  }

  /// The view that is shown says what its keys do; those of the page stay.
  set(handlers, always = this.always) {
    this.always = always;
    this.handlers = { ...always, ...handlers };
  }

  #pressed(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const { target } = event;
    const typing = target.closest?.("input:not([type=range]), textarea, select, [contenteditable]");
    if (document.querySelector("dialog[open]")) return;
    if (event.key === "Escape" && typing) return target.blur();
    if (typing) return;
    const handler = this.handlers[event.key];
    if (handler && handler(event) !== false) event.preventDefault();
  }
}

export function help() {
  const table = (rows, tag) => h("dl", { class: "keys" }, rows.map(([key, text]) => h("div", {}, h("dt", {}, key.split("  ").map((one) => h(tag, {}, one))), h("dd", {}, text))));
  const dialog = h("dialog", { class: "help", "aria-labelledby": "help-title" }, h("h2", { id: "help-title" }, "Keys and filters"), h("div", { class: "columns" }, table(HELP, "kbd"), table(FILTERS, "code")), button("Close", () => dialog.close(), { class: "primary", autofocus: true }));
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  document.body.append(dialog);
  dialog.showModal();
}

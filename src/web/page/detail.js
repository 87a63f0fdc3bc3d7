// A change opened: its diff in several forms, who made it, what it belongs to, where it was sent and why.

import * as api from "./api.js";
import { plain, render } from "./diff.js";
import { button, copy, h, replace } from "./dom.js";
import { OBSERVED, cells } from "./row.js";
import * as routes from "./routes.js";
import { go, link, state, toObject, toTimeline } from "./state.js";
import { count, full, kind, objectName, span } from "./words.js";

const TABS = [
  ["diff", "Diff"],
  ["split", "Side by side"],
  ["patch", "Patch"],
  ["object", "Object then"],
  ["why", "Why sent"],
];

/// Parts of a rollout that are listed before one asks for all.
const FEW = 8;

/// The element of an event by its id. `parts` are those of the rollout that it stands for.
export function detail(id, { parts, main = true, gone } = {}) {
  const box = h("div", { class: "detail" });
  load(box, id, { parts, main, gone });
  return box;
}

async function load(box, id, options) {
  box.setAttribute("aria-busy", "true");
  if (!box.childElementCount) replace(box, h("p", { class: "note" }, "Reading the change …"));
  try {
    show(box, await api.event(id), options);
  } catch (failure) {
    const again = button("Try again", () => load(box, id, options));
    const missing = failure.status === 404 || failure.status === 410;
    replace(box, h("div", { class: "trouble", role: "alert" }, h("p", {}, missing ? "This change is no longer kept." : failure.message), h("p", {}, failure.remedy ?? (missing ? "Older changes are removed after state.retention_days." : "The rest of the page still works.")), again));
    if (missing) options.gone?.();
  }
  box.removeAttribute("aria-busy");
}

function show(box, answer, options) {
  const { event } = answer;
  const panel = h("div", { class: "panel", role: "tabpanel", tabindex: "0" });
  let tab = TABS.some(([name]) => name === state.tab) && options.main ? state.tab : preferred();
  const tabs = TABS.map(([name, label]) => h("button", { type: "button", role: "tab", "data-tab": name, on: { click: () => choose(name) } }, label));
  const choose = (name, quiet) => {
    tab = name;
    for (const one of tabs) {
      const chosen = one.dataset.tab === name;
      one.setAttribute("aria-selected", chosen);
      one.tabIndex = chosen ? 0 : -1;
    }
    panel.setAttribute("aria-label", TABS.find(([one]) => one === name)[1]);
    replace(panel, PANELS[name](answer));
    if (quiet) return;
    if (name === "diff" || name === "split") localStorage.setItem("kubediff.diff", name);
    if (options.main) go({ tab: name }, { quiet: true, replace: true });
  };
  const arrows = (key) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[key.key];
    if (!step) return;
    key.preventDefault();
    const at = tabs.findIndex((one) => one.dataset.tab === tab);
    const next = tabs[(at + step + tabs.length) % tabs.length];
    choose(next.dataset.tab);
    next.focus();
  };
  const bar = h("div", { class: "tabs" }, h("div", { role: "tablist", "aria-label": "Views of the change", on: { keydown: arrows } }, tabs), actions(answer));
  replace(box, bar, panel, meta(answer, (id) => load(box, id, { ...options, parts: undefined })), options.parts?.element);
  choose(tab, true);
}

function preferred() {
  return localStorage.getItem("kubediff.diff") === "split" && innerWidth > 900 ? "split" : "diff";
}

const PANELS = {
  diff: ({ before, after }) => render(before, after, "inline"),
  split: ({ before, after }) => render(before, after, "split"),
  patch: patch,
  object: ({ event, before, after }) =>
    event.type === "deleted" ? [h("p", { class: "note" }, "As it was when it was deleted:"), plain(event.object ?? before)] : plain(after ?? event.object),
  why: (answer) => routes.panel(answer),
};

function patch({ event, inverse }) {
  const text = (value) => h("pre", { class: "json", tabindex: "0" }, JSON.stringify(value, null, 2));
  if (!event.patch) {
    return h("p", { class: "note" }, `There is no patch: the object was ${event.type} as a whole. "Object then" has it.`);
  }
  return [
    h("h4", {}, "Patch, RFC 6902"),
    text(event.patch),
    inverse ? h("h4", {}, "Its inverse, which undoes it") : null,
    inverse ? text(inverse) : null,
  ];
}

function actions({ event, undo }) {
  const { resource } = event;
  const noUndo = undo ? null : event.type === "deleted" ? "a deleted object cannot be patched back; copy it from “Object then”" : "there is nothing to undo by a patch";
  const url = new URL(link({ ...toTimeline(), event: event.id }), location.href);
  return h(
    "div",
    { class: "actions" },
    event.patch ? button("Copy patch", () => copy(JSON.stringify(event.patch, null, 2), "the patch")) : null,
    button("Copy undo", () => copy(undo, "the command; it is not run by kubediff"), { disabled: !undo, title: noUndo ?? undo }),
    button("Copy link", () => copy(String(url), "the link")),
    h("a", { class: "button", href: link(toObject(resource)), "data-go": "" }, "Open object"),
  );
}

function meta(answer, open) {
  const { event } = answer;
  const item = (label, ...value) => h("div", {}, h("dt", {}, label), h("dd", {}, ...value));
  const actors = (event.actors ?? []).map((actor, index) => [index ? ", " : null, h("b", {}, actor.manager), ` ${actor.operation ?? ""}${actor.subresource ? ` of ${actor.subresource}` : ""}`]);
  const { resource } = event;
  const versions = resource.previousResourceVersion ? [h("b", {}, resource.previousResourceVersion), " to ", h("b", {}, resource.resourceVersion)] : [h("b", {}, resource.resourceVersion)];
  const made = event.actors?.[0]?.time;
  const delay = made && event.observed === "live" ? Date.parse(event.time) - Date.parse(made) : undefined;
  const step = (label, id) => (id ? button(label, () => open(id)) : null);
  const sent = answer.routes ? routes.sentTo(answer) : undefined;
  return h(
    "dl",
    { class: "meta" },
    item("when", h("time", { datetime: event.time }, full(event.time))),
    item("who", actors.length ? actors : "not recorded by the API server", answer.hand ? [" ", h("span", { class: "hand" }, "by hand")] : null),
    item("belongs to", chain(answer)),
    item("version", ...versions),
    item("observed", h("b", {}, event.observed), `, ${OBSERVED[event.observed] ?? ""}`, delay > 1000 && delay < 60_000 ? `, within ${span(delay)}` : null),
    sent ? item("sent to", sent) : null,
    event.classes?.length ? item("classes", event.classes.join(", ")) : null,
    answer.previous || answer.next ? item("this object", step("← change before", answer.previous), " ", step("change after →", answer.next)) : null,
  );
}

/// From the object up to its root owner, each a link to its own page; the root is a filter for all that belongs to it.
function chain({ event, owners = [] }) {
  const { resource, owner } = event;
  const root = owner ?? resource;
  const filter = { owner: [`${root.kind}/${root.namespace ? `${root.namespace}/` : ""}${root.name}`] };
  const all = (label) => h("a", { href: link(toTimeline(filter)), "data-go": "", title: "all that belongs to it" }, label);
  const same = (one, other) => one.kind === other.kind && one.name === other.name && (one.namespace ?? "") === (other.namespace ?? "");
  if (same(root, resource)) return [all(`${kind(resource)} ${objectName(resource)}`), ", its own root"];
  const between = owners.filter((one) => !same(one, root));
  const known = (one) => (one.resource ? h("a", { href: link(toObject(one)), "data-go": "" }, `${kind(one)} ${one.name}`) : h("b", {}, `${kind(one)} ${one.name}`));
  return [h("b", {}, `${kind(resource)} ${objectName(resource)}`), between.map((one) => [" in ", known(one)]), " of ", all(`${root.kind} ${objectName(root)}`)];
}

/// The other changes of a rollout, each of which opens in its place. The rollout may go on while it is open: what is
/// shown stays as it is.
export class Parts {
  constructor(name) {
    this.name = name;
    this.items = new Map();
    this.all = false;
    this.title = h("h4", {});
    this.list = h("ol", { class: "parts" });
    this.more = button("", () => {
      this.all = true;
      this.set(this.rows);
    }, { class: "more" });
    this.element = h("section", { class: "rollout" }, this.title, this.list, this.more);
  }

  /// All that there are by now, the oldest first.
  set(rows) {
    this.rows = rows;
    const shown = rows.filter((row, index) => this.all || index < FEW || this.items.has(row.id));
    const items = new Map(shown.map((row) => [row.id, this.items.get(row.id) ?? part(row)]));
    for (const [id, item] of this.items) if (!items.has(id)) item.remove();
    // Only what is not in its place is touched: an element that is moved loses the focus.
    let next = this.list.firstChild;
    for (const item of items.values()) {
      if (item === next) next = next.nextSibling;
      else this.list.insertBefore(item, next);
    }
    this.items = items;
    this.title.textContent = `${this.name}: ${count(rows.length, "more change")}`;
    this.more.textContent = `Show all ${rows.length}`;
    this.more.hidden = shown.length === rows.length;
    this.element.hidden = !rows.length;
  }
}

function part(row) {
  const item = h("li", {});
  const head = h("button", { type: "button", class: "row", "aria-expanded": "false", on: { click: toggle } }, cells(row));
  item.append(head);
  function toggle() {
    const open = head.getAttribute("aria-expanded") === "true";
    head.setAttribute("aria-expanded", !open);
    if (open) item.lastChild.remove();
    else item.append(detail(row.id, { main: false }));
  }
  return item;
}

// Health: one line per watch and sink. What is wrong is on top, and says since when, why, and what to do.

import * as api from "./api.js";
import { button, h, replace } from "./dom.js";
import { state, go, toTimeline } from "./state.js";
import { bytes, count, full, moment, number, span } from "./words.js";

const FINE = new Set(["live", "watching", "synced", "ok", "healthy", "delivering", "idle", "ready", "running", "up"]);
const SOON = new Set(["starting", "listing", "connecting", "syncing", "standby"]);

/// 0: wrong, 1: on its way, 2: fine.
export function grade(state) {
  const word = String(state ?? "").toLowerCase();
  return FINE.has(word) ? 2 : SOON.has(word) ? 1 : 0;
}

/// `58 of 59 watches healthy   3 sinks, 0 waiting`
export function summary(status) {
  const { informers = [], sinks = [] } = status;
  const good = informers.filter((one) => grade(one.state) === 2).length;
  const waiting = sinks.reduce((sum, one) => sum + (one.waiting ?? 0), 0);
  const bad = [...informers, ...sinks].filter((one) => grade(one.state) === 0).length;
  const watches = good === informers.length ? `${count(good, "watch", "watches")} healthy` : `${number(good)} of ${count(informers.length, "watch", "watches")} healthy`;
  return { bad, text: watches, sinks: sinks.length ? `${count(sinks.length, "sink")}, ${number(waiting)} waiting` : "no sinks" };
}

export class Health {
  constructor({ status, refresh }) {
    Object.assign(this, { status, refresh });
    this.element = h("div", { class: "health-view" });
    this.keys = { Escape: () => go(toTimeline(state.filters)) };
  }

  close() {}

  update() {
    document.title = "Health · kubediff";
    this.draw();
    this.refresh();
    api.get("silences").then(({ silences }) => {
      this.silences = silences;
      this.draw();
    }, () => {});
  }

  draw(problem) {
    const status = this.status();
    if (problem && !status) {
      return replace(this.element, h("div", { class: "trouble", role: "alert" }, h("h3", {}, "The state of kubediff could not be read"), h("p", {}, problem.message), h("p", {}, problem.remedy ?? ""), button("Try again", () => this.refresh(), { class: "primary" })));
    }
    if (!status) return replace(this.element, h("p", { class: "note" }, "Reading …"));
    const { informers = [], sinks = [] } = status;
    // Not everybody may see how much is kept.
    const ledger = status.ledger ?? {};
    const wrong = [...informers, ...sinks].filter((one) => grade(one.state) === 0);
    if (ledger.failing) wrong.unshift({ name: "State file", state: "failing", reason: ledger.failing, remedy: "Nothing is dropped: it is tried again until it holds. Make room on the disk, or give back the permission to write." });
    const said = summary(status);
    const facts = [
      ["version", status.version],
      ["cluster", status.cluster?.name],
      ["running since", status.started ? `${moment(status.started)}, ${span(Date.now() - Date.parse(status.started))}` : undefined],
      ["changes kept", ledger.events === undefined ? undefined : `${number(ledger.events)}, ${bytes(ledger.bytes ?? 0)}`],
      ["oldest kept", ledger.oldest ? moment(ledger.oldest) : undefined],
      ["role", status.leader === true ? "leader" : status.leader === false ? "standby" : undefined],
    ].filter(([, value]) => value);
    return replace(
      this.element,
      h("h1", {}, wrong.length ? `${count(wrong.length, "thing")} ${wrong.length === 1 ? "needs" : "need"} attention` : status.synced === false ? "Starting" : "All is well"),
      h("p", { class: "lead" }, `${said.text}. ${said.sinks}.${problem ? ` Not up to date: ${problem.message}` : ""}`),
      h("dl", { class: "facts" }, facts.map(([label, value]) => h("div", {}, h("dt", {}, label), h("dd", {}, value)))),
      wrong.length ? h("section", {}, h("h2", {}, "Wrong now"), h("ul", { class: "wrongs" }, wrong.map(trouble))) : null,
      h("section", {}, h("h2", {}, "Sinks"), sinks.length ? sinkTable(sinks) : h("p", { class: "note" }, "No sink is configured: changes are kept and shown here, and sent nowhere. [sinks.NAME] in the configuration adds one.")),
      this.silences?.length ? h("section", {}, h("h2", {}, "Silences"), h("ul", { class: "wrongs" }, this.silences.map(silence))) : null,
      h("section", {}, h("h2", {}, "Watches"), watchTable(informers)),
    );
  }
}

const nameOf = (one) => one.name ?? (one.group ? `${one.resource}.${one.group}` : one.resource);

function trouble(one) {
  const since = one.since ? h("time", { datetime: one.since, title: full(one.since) }, `since ${moment(one.since)}`) : null;
  return h("li", {}, h("p", {}, h("b", {}, nameOf(one)), " ", h("span", { class: "state bad" }, one.state), " ", since), one.reason ? h("p", {}, one.reason) : null, one.remedy ? h("p", { class: "remedy" }, one.remedy) : null);
}

function silence(one) {
  const what = [one.kind, one.namespace ? `in ${one.namespace}` : null, one.name].filter(Boolean).join(" ") || "everything";
  return h("li", {}, h("p", {}, h("b", {}, what), ` until ${moment(one.until)}${one.sinks?.length ? `, for ${one.sinks.join(", ")}` : ""}`), h("p", { class: "soft" }, `${one.reason}${one.by ? `, by ${one.by}` : ""}`));
}

const NUMBERS = new Set(["Waiting", "Delivered", "Given up", "Objects"]);

function table(head, rows) {
  return h("div", { class: "scroll" }, h("table", {}, h("thead", {}, h("tr", {}, head.map((text) => h("th", { scope: "col", class: NUMBERS.has(text) ? "num" : null }, text)))), h("tbody", {}, rows)));
}

function stateCell({ state, since, reason }) {
  const word = ["bad", "soon", "fine"][grade(state)];
  return h("td", { title: reason || null }, h("span", { class: `state ${word}` }, state), since ? h("span", { class: "soft", title: full(since) }, ` ${moment(since)}`) : null);
}

const byGrade = (a, b) => grade(a.state) - grade(b.state);

function sinkTable(sinks) {
  const rows = [...sinks].sort(byGrade).map((one) =>
    h("tr", {}, h("th", { scope: "row" }, one.name, " ", h("span", { class: "soft" }, one.type)), stateCell(one), h("td", { class: "num" }, number(one.waiting)), h("td", {}, one.oldest ? `${span(Date.now() - Date.parse(one.oldest))} old` : ""), h("td", { class: "num" }, number(one.delivered)), h("td", { class: "num" }, number(one.dead))));
  return table(["Sink", "State", "Waiting", "Oldest", "Delivered", "Given up"], rows);
}

function watchTable(informers) {
  const latest = (one) => one.lastEvent ?? one.lastBookmark;
  const rows = [...informers].sort((a, b) => byGrade(a, b) || nameOf(a).localeCompare(nameOf(b))).map((one) =>
    h("tr", {}, h("th", { scope: "row" }, one.kind ?? one.resource, " ", h("span", { class: "soft" }, one.group || "core", one.scope && one.scope !== "all" ? ` in ${one.scope}` : "")), stateCell(one), h("td", { class: "num" }, number(one.objects)), h("td", {}, latest(one) ? h("time", { datetime: latest(one), title: full(latest(one)) }, moment(latest(one))) : "")));
  return table(["Watch", "State", "Objects", "Last heard"], rows);
}

// Why a change went where it went: the routes that were asked, in order, and what each said.

import { h } from "./dom.js";
import { count } from "./words.js";

export function sentTo({ routes, deliveries }) {
  const { sinks = [], dropped } = routes;
  if (!sinks.length) return dropped ? `nobody: ${WHY[dropped] ?? dropped}` : "nobody";
  const late = new Map((deliveries ?? []).map((one) => [one.sink, one.state]));
  return sinks.flatMap((sink, index) => [index ? ", " : null, h("b", {}, sink), late.has(sink) ? ` (${late.get(sink)})` : null]);
}

/// Why nobody gets it, where that is not the words of a route.
const WHY = { silenced: "it is silenced", ignored: "it is annotated to be ignored", no_route: "no route takes it", no_sink: "the route that takes it names no sink" };

function verdict(given) {
  if (typeof given === "string") return given === "took" ? ["yes", "took it"] : ["", given];
  if (given?.dropped) return ["drop", `dropped it: ${given.dropped.reason}`];
  if (given?.refused) return ["no", `${given.refused.test ?? ""} ${given.refused.detail ?? ""}`.trim()];
  if (given?.failed) return ["failed", given.failed.detail];
  return ["", JSON.stringify(given)];
}

/// Of when what the routes went by is known.
const KNOWN = { then: "as they were then", now: "as they are now", unknown: "not known any more" };

function surroundings(around) {
  if (!around) return null;
  const silences = around.silences?.length ? `, and ${count(around.silences.length, "silence")} that held then` : "";
  return h("p", { class: "note" }, `By the routes as they are now, its annotations ${KNOWN[around.object]}, the labels of its namespace ${KNOWN[around.namespace]}${silences}.`);
}

export function panel({ routes, deliveries, around }) {
  const waiting = (deliveries ?? []).map((one) =>
    h("li", {}, h("b", {}, one.sink), one.state === "dead" ? " gave up" : " still waits", one.attempts ? `, after ${one.attempts} attempts` : "", one.reason ? `: ${one.reason}` : ""));
  const undelivered = waiting.length ? [h("h4", {}, "Not delivered"), h("ul", { class: "steps" }, waiting)] : null;
  if (!routes) return [h("p", { class: "note" }, "Where this change was sent is not told here: this kubediff sends nothing, or you may not see where it sends things (get status.kubediff.io)."), undelivered];
  const { silenced = [] } = routes;
  const steps = (routes.steps ?? []).map((step) => {
    const [word, text] = verdict(step.verdict);
    const line = h("li", { class: `step ${word}` }, h("span", { class: "word" }, word), h("b", {}, step.route), " ", h("span", { class: "why" }, word === "yes" ? "" : text));
    line.style.marginInlineStart = `${(step.depth ?? 0) * 20}px`;
    return line;
  });
  return [
    h("p", { class: "verdict" }, "Sent to ", sentTo({ routes, deliveries }), "."),
    routes.annotated ? h("p", { class: "note" }, "An annotation names the sinks, so no route was asked.") : null,
    steps.length ? h("ol", { class: "steps" }, steps) : routes.annotated ? null : h("p", { class: "note" }, "There are no routes: everything goes to every sink."),
    silenced.length ? h("p", { class: "note" }, "Kept back by silences: ", silenced.map(({ sink, silence }) => `${sink} (${silence})`).join(", ")) : null,
    surroundings(around),
    undelivered,
  ];
}

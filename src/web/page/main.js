// The page: its header, and the view that the URL asks for below it.

import * as api from "./api.js";
import { button, h, hidden, later, replace, toast } from "./dom.js";
import { Health, summary } from "./health.js";
import { Keys, help } from "./keys.js";
import { Tail } from "./live.js";
import { ObjectPage } from "./object.js";
import { signIn } from "./signin.js";
import { format, go, link, onChange, parse, state, toHealth, toTimeline } from "./state.js";
import { Timeline } from "./timeline.js";
import { count, full } from "./words.js";

/// How often the state of watches and sinks is read, while somebody looks.
const STATUS = 10_000;

const place = document.getElementById("main");
const search = document.getElementById("search");
const liveButton = document.getElementById("live");
const keys = new Keys();
let status;
let view;

const tail = new Tail({
  heard: (rows) => view?.heard?.(rows),
  changed: showLive,
  behind: (why = "The page was away for long; everything is read again.") => {
    toast(why);
    view?.load?.();
  },
});

const MAKE = {
  timeline: () => new Timeline({ tail, status: () => status }),
  object: () => new ObjectPage({ tail }),
  health: () => new Health({ status: () => status, refresh: readStatus }),
};

function draw() {
  document.body.dataset.view = state.view;
  if (view?.name !== state.view) {
    view?.close();
    view = MAKE[state.view]();
    view.name = state.view;
    replace(place, view.element);
    keys.set(view.keys);
    scrollTo({ top: 0, behavior: "instant" });
    if (state.view === "health") tail.stop();
    if (drawn) place.focus({ preventScroll: true });
    drawn = true;
  }
  document.title = state.view === "timeline" ? `${format(state.filters) || "Timeline"} · kubediff` : document.title;
  if (document.activeElement !== search) search.value = format(state.filters);
  for (const one of document.querySelectorAll("nav [data-view]")) {
    if (one.dataset.view === state.view) one.setAttribute("aria-current", "page");
    else one.removeAttribute("aria-current");
  }
  view.update();
  showLive();
}
let drawn = false;

function showLive() {
  const shown = state.view !== "health";
  liveButton.hidden = !shown;
  if (!shown) return;
  const past = state.view === "timeline" && state.filters.until;
  const held = tail.waiting;
  const [name, text, title] = past
    ? ["past", "the past", "The period that is shown has ended. Press to go on to now."]
    : tail.paused
      ? ["paused", held ? `paused, ${count(held, "new")}`.replace("news", "new") : "paused", "Press to resume."]
      : {
          live: ["live", "live", "Changes appear as they are made. Press to pause."],
          connecting: ["waiting", "connecting", "Waiting for kubediff to answer."],
          lost: ["lost", "connection lost", `${tail.why ?? "kubediff does not answer."} It is tried again; what is shown stays.`],
          off: ["waiting", "not live", ""],
        }[tail.state];
  if (liveButton.dataset.state === "lost" && name === "live") view?.recovered?.();
  liveButton.dataset.state = name;
  liveButton.title = title;
  liveButton.setAttribute("aria-pressed", tail.paused);
  replace(liveButton, h("span", { class: "dot", "aria-hidden": "true" }), h("span", {}, text), hidden(tail.paused ? ": resume" : past ? ": go to now" : ": pause"));
}

function pause() {
  if (state.view === "timeline" && state.filters.until) {
    const { until, ...filters } = state.filters;
    return go({ filters });
  }
  return tail.pause(!tail.paused);
}

const statusLater = later(STATUS, () => readStatus());
async function readStatus() {
  statusLater.cancel();
  const place = document.getElementById("health");
  try {
    status = await api.get("status");
    const said = summary(status);
    replace(place, said.bad ? h("span", { class: "bad" }, `${said.bad} wrong`) : null, h("span", {}, said.text), h("span", {}, said.sinks));
    document.getElementById("cluster").textContent = status.cluster?.name ?? "";
    if (state.view === "health") view.draw();
  } catch (failure) {
    if (failure.status === 401) return;
    replace(place, h("span", { class: "bad" }, "no answer"));
    if (state.view === "health") view.draw(failure);
  }
  statusLater();
}

/// The full time of any time that is pointed at; writing it into each row beforehand would be slow.
document.addEventListener("pointerover", ({ target }) => {
  const time = target.closest?.("time[datetime]:not([title])");
  if (time) time.title = full(time.dateTime);
});

/// Links within the page change the state and read nothing anew.
document.addEventListener("click", (event) => {
  const target = event.target.closest?.("a[data-go], nav a");
  if (!target || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", target.getAttribute("href"));
  dispatchEvent(new PopStateEvent("popstate"));
});

const searched = later(350, () => go({ ...toTimeline(parse(search.value)), flat: state.flat }, { replace: state.view === "timeline" }));
search.addEventListener("input", searched);
search.closest("form").addEventListener("submit", (event) => {
  event.preventDefault();
  searched.cancel();
  go({ ...toTimeline(parse(search.value)), flat: state.flat });
  search.blur();
});
search.addEventListener("blur", () => (search.value = format(state.filters)));
document.getElementById("theme").addEventListener("click", () => document.dispatchEvent(new Event("kubediff:theme")));
document.getElementById("help").addEventListener("click", help);
liveButton.addEventListener("click", pause);
addEventListener("visibilitychange", () => !document.hidden && readStatus());

let asking = false;
document.addEventListener("kubediff:sign-in", async ({ detail }) => {
  if (asking) return;
  asking = true;
  tail.stop();
  await signIn(detail);
  asking = false;
  begin();
});

/// Who is asking comes first: who is not known is asked, and nothing else is requested until then.
async function begin() {
  view?.close();
  view = undefined;
  const user = document.getElementById("user");
  replace(user);
  try {
    const who = await api.get("whoami");
    const out = button("Sign out", () => (api.setToken(undefined), location.reload()), { class: "quiet" });
    replace(user, who.auth === "token" && who.user ? [h("span", { class: "soft" }, who.user), out] : null);
  } catch (failure) {
    if (failure.status === 401) return;
  }
  draw();
  readStatus();
}

keys.set(
  {},
  {
    "/": () => (search.focus(), search.select()),
    "?": help,
    d: () => document.dispatchEvent(new Event("kubediff:theme")),
    p: pause,
    t: () => go(toTimeline()),
    h: () => go(toHealth()),
  },
);
document.querySelector("nav [data-view=timeline]").setAttribute("href", location.pathname);
document.querySelector("nav [data-view=health]").setAttribute("href", link({ ...toHealth(), filters: {} }));
onChange(draw);
begin();

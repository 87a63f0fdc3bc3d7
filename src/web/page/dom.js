// Elements from data. All text goes in as text nodes: nothing from the cluster is ever read as markup.

const SVG = "http://www.w3.org/2000/svg";

/// h("p", {class: "note", on: {click}}, "text", child, null): null and false children are left out.
export function h(tag, props, ...children) {
  return fill(document.createElement(tag), props, children);
}

export function svg(tag, props, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

function fill(element, props, children) {
  for (const [name, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined) continue;
    if (name.startsWith("aria-")) {
      element.setAttribute(name, String(value));
    } else if (value === false) {
      continue;
    } else if (name === "on") {
      for (const [event, handler] of Object.entries(value)) element.addEventListener(event, handler);
    } else if (name === "value") {
      element.value = value;
    } else {
      element.setAttribute(name, value === true ? "" : String(value));
    }
  }
  append(element, children);
  return element;
}

function append(element, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(element, child);
    else element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  append(element, children);
  return element;
}

/// Read by screen readers, not seen.
export function hidden(text) {
  return h("span", { class: "sr" }, text);
}

export function button(label, handler, props) {
  return h("button", { type: "button", ...props, on: { click: handler } }, label);
}

/// Says it aloud to screen readers, without moving the focus.
export function announce(text) {
  const place = document.getElementById("announcer");
  if (place && place.textContent !== text) place.textContent = text;
}

/// A short message at the foot of the page that goes by itself.
let toasting;
export function toast(text) {
  const place = document.getElementById("toast");
  clearTimeout(toasting);
  place.textContent = text;
  place.hidden = false;
  toasting = setTimeout(() => (place.hidden = true), 2600);
}

export async function copy(text, what) {
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Only pages of https and of this machine have a clipboard; the old way works everywhere.
    const area = h("textarea", { class: "sr", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    if (!done) return toast("The browser does not let this page copy.");
  }
  toast(`Copied ${what}`);
}

/// Calls it once, `wait` ms after the last time it was asked for, and at the latest four times that after the first.
export function later(wait, call) {
  let timer;
  let first;
  const ask = (...args) => {
    clearTimeout(timer);
    first ??= Date.now();
    timer = setTimeout(() => {
      first = undefined;
      call(...args);
    }, Math.max(0, Math.min(wait, first + 4 * wait - Date.now())));
  };
  ask.cancel = () => (clearTimeout(timer), (first = undefined));
  return ask;
}

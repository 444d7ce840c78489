// Elements out of words. Text is only ever set as text: nothing that a user wrote becomes markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "onclick") element.onclick = value;
    else if (name === "vars") {
      for (const [key, number] of Object.entries(value)) element.style.setProperty(key, number);
    } else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

export const h = (tag, attributes, ...children) =>
  fill(document.createElement(tag), attributes, children);
export const svg = (tag, attributes, ...children) =>
  fill(document.createElementNS(SVG, tag), attributes, children);
export const $ = (selector) => document.querySelector(selector);
export const page = document.documentElement.dataset;
export const can = (right) => page.can.split(" ").includes(right);

export function put(place, ...children) {
  const wanted = children.flat().filter((child) => child !== null && child !== undefined);
  place.replaceChildren(...wanted);
}

// What an element stands for: only the same thing takes its place. Others go by their order.
const keyOf = (node) => node.dataset?.key || (node.nodeName === "BUTTON" ? node.textContent : null);

function settleAttributes(old, made) {
  for (const { name } of [...old.attributes])
    if (name !== "style" && !made.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of made.attributes)
    if (name !== "style" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  // Through the object model: the policy of the page refuses the attribute.
  if (old.style.cssText !== made.style.cssText) old.style.cssText = made.style.cssText;
}

// Makes `old` look and act like `made`; gives what stands there then.
export function settle(old, made) {
  if (old === made) return old;
  if (old.nodeName !== made.nodeName || keyOf(old) !== keyOf(made)) {
    old.replaceWith(made);
    return made;
  }
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== made.data) old.data = made.data;
    return old;
  }
  // Whether it is folded is for the person to say.
  if (old.nodeName === "DETAILS") made.open = old.open;
  settleAttributes(old, made);
  old.onclick = made.onclick;
  fit(old, [...made.childNodes]);
  return old;
}

function fit(place, wanted) {
  const named = wanted.map((made, at) => [keyOf(made) ?? at, made]);
  const keys = new Set(named.map(([key]) => key));
  const there = new Map();
  for (const [at, node] of [...place.childNodes].entries()) {
    const key = keyOf(node) ?? at;
    if (keys.has(key) && !there.has(key)) there.set(key, node);
    else node.remove();
  }
  let next = place.firstChild;
  for (const [key, made] of named) {
    const old = there.get(key);
    there.delete(key);
    if (old && old === next) next = settle(old, made).nextSibling;
    else place.insertBefore(old ? settle(old, made) : made, next);
  }
}

// Only what differs is put into the document: focus and selection stay where they are, and a click
// that has begun on a button ends on it.
export function renew(place, ...children) {
  const focused = place.contains(document.activeElement) ? document.activeElement : null;
  const wanted = children.flat().filter((child) => child !== null && child !== undefined);
  fit(place, wanted.map((child) => child instanceof Node ? child : new Text(child)));
  if (focused?.isConnected && focused !== document.activeElement) focused.focus({ preventScroll: true });
}

const pad = (number) => String(number).padStart(2, "0");

export function seconds(moment) {
  return moment ? Date.parse(moment) / 1000 : 0;
}

export function span(s) {
  s = Math.max(0, Math.round(s));
  const two = (large, small, unit, rest) => {
    const left = Math.floor((s % large) / small);
    return `${Math.floor(s / large)} ${unit}${left ? ` ${left} ${rest}` : ""}`;
  };
  if (s < 60) return `${s} s`;
  if (s < 3600) return two(60, 1, "min", "s");
  if (s < 86400) return two(3600, 60, "h", "min");
  return two(86400, 3600, "d", "h");
}

export function clock(s, nowS = Date.now() / 1000) {
  if (!s) return "";
  const at = new Date(s * 1000);
  const hours = `${pad(at.getHours())}:${pad(at.getMinutes())}`;
  if (Math.abs(s - nowS) < 20 * 3600) return hours;
  return `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())} ${hours}`;
}

export function memory(mib) {
  if (!mib) return "0";
  return mib >= 1024 ? `${Math.round(mib / 102.4) / 10} GiB` : `${Math.round(mib)} MiB`;
}

// The GPUs that something asks for, and how much of them where it shares.
export function gpuWish(asked) {
  const size = asked.gpu_memory_mb ? memory(asked.gpu_memory_mb) : "";
  const part = asked.shared ? ["shared", size].filter(Boolean).join(" ") : size && `with ${size}`;
  const words = [round(asked.gpus, 2), "GPU", asked.gpu_type || "", part ? `(${part})` : ""];
  return asked.gpus ? words.filter(Boolean).join(" ") : "";
}

export const round = (number, digits = 1) => String(Math.round(number * 10 ** digits) / 10 **
  digits);

// One colour for each owner, the same on every page.
export function hue(name) {
  let mixed = 2166136261;
  for (const letter of name) mixed = Math.imul(mixed ^ letter.codePointAt(0), 16777619);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 3266489909);
  return ((mixed ^ (mixed >>> 13)) >>> 0) % 360;
}

// What was begun and has not ended is not begun again: people click twice.
const begun = new WeakSet();
export async function once(element, deed) {
  if (begun.has(element)) return;
  begun.add(element);
  try {
    await deed();
  } finally {
    begun.delete(element);
  }
}

export function button(text, deed, attributes = {}) {
  const onclick = (event) => once(event.currentTarget, deed);
  return h("button", { type: "button", ...attributes, onclick }, text);
}

// A text of more letters may be folded into lines.
export const LONG = 30;

// A row for each of what was found; `key` tells what a row is about.
export function rows(table, found, key = null) {
  const cells = (row) => row.map((cell) => h("td", { class: cell?.length > LONG ? "long" : null },
    cell));
  renew($(`${table} tbody`), found.map((row) => h("tr", { "data-key": key && key(row) }, cells(row))));
}

// Somebody, with their colour. A long name is cut where it is shown, and told when pointed at.
export function person(name) {
  return h("span", { class: "person", title: name },
    h("i", { class: "owner", vars: { "--hue": hue(name) } }), h("bdi", null, name));
}

export const jobLink = (id, text = String(id), array = false) =>
  h("a", { href: `/web/${array ? "sweep" : "job"}/${encodeURIComponent(id)}` }, text);

export function state(word) {
  return h("span", { class: `state ${word}` }, word);
}

// A bar that shows how much of something; `beyond` is how it looks when there is more than all.
export function part(value, of, beyond = "over") {
  const share = of ? Math.min(100, (100 * value) / of) : 0;
  return h("span", { class: value > of ? `part ${beyond}` : "part",
  role: "img", "aria-label": `${round(share, 0)} %`, vars: { "--part": `${share}%` } });
}

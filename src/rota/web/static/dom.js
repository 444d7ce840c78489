// Elements out of words. Text is only ever set as text: nothing that a user wrote becomes markup.
const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
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

// Only what differs is put into the document: focus and selection stay where they are.
export function put(place, ...children) {
  const wanted = children.flat().filter((child) => child !== null && child !== undefined);
  place.replaceChildren(...wanted);
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

export const round = (number, digits = 1) => String(Math.round(number * 10 ** digits) / 10 **
  digits);

// One colour for each owner, the same on every page.
export function hue(name) {
  let mixed = 2166136261;
  for (const letter of name) mixed = Math.imul(mixed ^ letter.codePointAt(0), 16777619);
  mixed = Math.imul(mixed ^ (mixed >>> 15), 3266489909);
  return ((mixed ^ (mixed >>> 13)) >>> 0) % 360;
}

export function button(text, deed, attributes = {}) {
  return h("button", { type: "button", ...attributes, onclick: deed }, text);
}

export function rows(table, found) {
  const cells = (row) => row.map((cell) => h("td", null, cell));
  put($(`${table} tbody`), found.map((row) => h("tr", null, cells(row))));
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

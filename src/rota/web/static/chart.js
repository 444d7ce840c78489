// Charts of our own: lines over time, and bars on a time axis.
import { h, svg, clock, hue, memory, round } from "./dom.js";

const STEPS = [60, 300, 600, 1800, 3600, 7200, 14400, 43200, 86400, 172800, 604800, 2592000];

function ticks(from, to) {
  const step = STEPS.find((one) => (to - from) / one <= 8) || STEPS.at(-1);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at < to; at += step) found.push(at);
  return found;
}

// How numbers are shown, by their unit.
const shown = { MiB: memory, "%": (number) => `${round(number, 0)} %` };

// One figure over time: points are [seconds, number]; `asked` is drawn as a line to compare with,
// `from` is where its scale begins.
export function curve(name, points, { unit = "", asked = 0, from = null } = {}) {
  const say = shown[unit] || ((number) => round(number, 3));
  const [wide, high, left, low] = [360, 130, 56, 18];
  const xs = points.map((point) => point[0]);
  const ys = [...points.map((point) => point[1]), asked || null, from].filter((one) => one !== null);
  const [x0, x1] = [Math.min(...xs), Math.max(...xs, Math.min(...xs) + 1)];
  const [y0, y1] = [Math.min(...ys), Math.max(...ys)];
  const x = (at) => left + ((at - x0) / (x1 - x0)) * (wide - left - 6);
  const y = (value) => high - low + 12 - ((value - y0) / (y1 - y0 || 1)) * (high - low - 14);
  const line = points.map((point) => `${round(x(point[0]))},${round(y(point[1]))}`).join(" ");
  const last = points.at(-1);
  const most = asked && unit !== "%" ? ` of ${say(asked)}` : "";
  const now = `${name}: ${say(last[1])}${most}`;
  const label = `${now}, from ${say(y0)} to ${say(y1)}`;
  return svg(
    "svg", { viewBox: `0 0 ${wide} ${high + 16}`, class: "curve",
  role: "img", "aria-label": label },
    svg("text", { x: left, y: 12, class: "name" }, now),
    svg("text", { x: left, y: high + 12, class: "tick" }, clock(x0)),
    svg("text", { x: wide - 6, y: high + 12, class: "tick end" }, clock(x1)),
    svg("line", { x1: left, x2: wide - 6, y1: y(y0), y2: y(y0), class: "axis" }),
    svg("text", { x: left - 4, y: y(y1) + 4, class: "tick end" }, say(y1)),
    svg("text", { x: left - 4, y: y(y0) + 4, class: "tick end" }, y0 === y1 ? "" : say(y0)),
    asked ? svg("line", { x1: left, x2: wide - 6, y1: y(asked), y2: y(asked), class: "asked" }) :
    null,
    svg("polyline", { points: line, class: "line" }),
    svg("circle", { cx: x(last[0]), cy: y(last[1]), r: 3, class: "dot" }),
  );
}

// Bars that overlap lie below each other: gives each its lane, and how many there are by row.
function lanes(items) {
  const [ends, last] = [new Map(), new Map()];
  for (const bar of items.toSorted((a, b) => a.start_s - b.start_s)) {
    if (!ends.has(bar.row)) ends.set(bar.row, []);
    const taken = ends.get(bar.row);
    const free = taken.findIndex((end) => end <= bar.start_s);
    bar.lane = free < 0 ? taken.length : free;
    taken[bar.lane] = bar.end_s;
    const key = `${bar.row} ${bar.lane}`;
    // Until then its lane is free behind it.
    if (last.has(key)) last.get(key).next_s = bar.start_s;
    last.set(key, bar);
  }
  return new Map([...ends].map(([row, taken]) => [row, taken.length]));
}

const [WIDE, LEFT, TOP, LANE] = [1000, 150, 20, 20];
// How wide a letter is, about.
const LETTER = 6.2;

function block(bar, x, y) {
  const [begin, end] = [x(bar.start_s), x(bar.end_s)];
  const size = { x: begin, y: y + 2, width: Math.max(2, end - begin), height: LANE - 4, rx: 2 };
  const parts = [
    svg("rect", { ...size, class: `bar ${bar.kind}`, vars: { "--hue": hue(bar.user || "") } }),
    svg("title", null, bar.label),
  ];
  const [within, behind] = [end - begin, (bar.next_s ? x(bar.next_s) : WIDE) - end];
  // Where the bar is too short for its words they stand behind it, if there is more room.
  const inside = within > bar.text.length * LETTER + 8 || within > behind;
  const room = inside ? within : behind;
  if (room > 46) {
    const most = Math.floor((room - 6) / LETTER);
    const text = bar.text.length > most ? `${bar.text.slice(0, most - 1)}…` : bar.text;
    const at = { x: (inside ? begin : end) + 4, y: y + 14, class: inside ? "inside" : "behind" };
    parts.push(svg("text", at, text));
  }
  const key = `${bar.row} ${bar.href}`;
  if (bar.href) return svg("a", { href: bar.href, "aria-label": bar.label, "data-key": key }, ...parts);
  return svg("g", { role: "img", "aria-label": bar.label }, ...parts);
}

// Bars on a time axis, and beside it the names of the rows, which stay where a narrow page is moved
// to other times: names is [[row, shown]]; a bar has row, start_s, end_s, kind, text, label.
export function bars({ names, items, from, to, now, label }) {
  const x = (at) => LEFT + ((Math.min(Math.max(at, from), to) - from) / (to - from)) * (WIDE -
    LEFT - 4);
  const seen = items.filter((bar) => bar.end_s > from && bar.start_s < to);
  const count = lanes(seen);
  const place = new Map();
  let high = TOP;
  for (const [row] of names) {
    place.set(row, high);
    high += Math.max(1, count.get(row) || 0) * LANE + 2;
  }
  const size = (left, wide) => ({ viewBox: `${left} 0 ${wide} ${high + 4}` });
  const drawn = svg("svg", { ...size(LEFT, WIDE - LEFT), class: "chart" });
  const beside = svg("svg", { ...size(0, LEFT), class: "names" });
  for (const at of ticks(from, to)) {
    drawn.append(
      svg("line", { x1: x(at), x2: x(at), y1: TOP - 4, y2: high, class: "axis" }),
      svg("text", { x: x(at) + 2, y: 12, class: "tick" }, clock(at, now)),
    );
  }
  for (const [row, shown] of names) {
    const text = shown.length > 22 ? `${shown.slice(0, 21)}…` : shown;
    beside.append(svg("text", { x: 2, y: place.get(row) + 14, class: "name" }, text));
  }
  drawn.append(svg("line", { x1: x(now), x2: x(now), y1: TOP - 6, y2: high, class: "now" }));
  for (const bar of seen) {
    if (place.has(bar.row)) drawn.append(block(bar, x, place.get(bar.row) + bar.lane * LANE));
  }
  return h("div", { class: "gantt", role: "group", "aria-label": label }, beside, drawn);
}

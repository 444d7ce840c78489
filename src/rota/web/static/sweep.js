import "./common.js";
import { $, button, can, clock, h, jobLink, put, renew, round, seconds, span } from "./dom.js";
import { api, call, change, feed, live, note, paced } from "./api.js";

const place = $("#sweep");
const id = place.dataset.job;
const mine = place.dataset.mine === "1";
const total = Number(place.dataset.count);
const BAD = new Set(["failed", "timeout", "node_failed", "unschedulable"]);
const ENDED = new Set([...BAD, "completed", "cancelled"]);
// In a cell with several elements the first of these that occurs is shown.
const WORST = ["failed", "timeout", "node_failed", "unschedulable", "running", "scheduled",
  "preempted", "queued", "held", "cancelled", "completed"
];
// The most elements that are asked at once for what they report: each is a file on its node.
const ASKED = 100;
const elements = new Map();
const figures = new Map();
let names = [];

const look = (word) => (BAD.has(word) ? "bad" : word === "scheduled" ? "running" : ["held",
  "preempted"
].includes(word) ? "queued" : word);

function ran(one) {
  const began = seconds(one.started_at);
  return began ? (seconds(one.ended_at) || Date.now() / 1000) - began : null;
}

function figure(one) {
  const wanted = $("#sweep-colour").value;
  if (wanted === "run time") return ran(one);
  if (wanted.startsWith("figure ")) return figures.get(one.id)?.[wanted.slice(7)] ?? null;
  return null;
}

function value(one, name) {
  return name === "index" ? String(one.index) : name === "" ? "" : one.parameters?.[name] ?? "";
}

const order = (a, b) => (isNaN(a) || isNaN(b) ? String(a).localeCompare(String(b)) : a - b);

const WORDS = { completed: "ok", running: "run", bad: "fail", cancelled: "cancel" };

function told(found, worst) {
  if (found.length === 1) return `job ${id}_${worst.index}: ${worst.state}${worst.cause ? `, ${worst.cause}` : ""}`;
  const ended = found.filter((one) => ENDED.has(one.state)).length;
  return `${found.length} elements, ${ended} ended, worst ${worst.state}`;
}

function byState(found, worst) {
  if (found.length === 1) return WORDS[look(worst.state)] || "…";
  return `${found.filter((one) => one.state === "completed").length}/${found.length}`;
}

function cell(found, low, high) {
  if (!found.length) return h("td", null);
  const worst = found.toSorted((a, b) => WORST.indexOf(a.state) - WORST.indexOf(b.state))[0];
  const label = told(found, worst);
  const link = { href: `/web/job/${worst.id}`, title: label, "aria-label": label };
  if ($("#sweep-colour").value === "state") {
    return h("td", null, h("a", { ...link, class: look(worst.state) }, byState(found, worst)));
  }
  const numbers = found.map(figure).filter((number) => number !== null && number !== undefined);
  if (!numbers.length) return h("td", null, h("a", { ...link, class: "queued" }, "–"));
  const mean = numbers.reduce((a, b) => a + b, 0) / numbers.length;
  const warm = 240 - 240 * ((mean - low) / (high - low || 1));
  return h("td", null, h("a", { ...link, class: "figure", vars: { "--hue": warm } }, round(mean, 3)));
}

function grid() {
  const [x, y] = [$("#sweep-x").value, $("#sweep-y").value];
  const all = [...elements.values()];
  const across = [...new Set(all.map((one) => value(one, x)))].sort(order);
  const down = [...new Set(all.map((one) => value(one, y)))].sort(order);
  const cells = new Map();
  for (const one of all) {
    const key = JSON.stringify([value(one, x), value(one, y)]);
    if (!cells.has(key)) cells.set(key, []);
    cells.get(key).push(one);
  }
  const numbers = all.map(figure).filter((number) => number !== null && number !== undefined);
  const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
  const corner = h("th", { scope: "col" }, y ? `${y} \\ ${x || "all"}` : x || "all");
  renew($("#grid"),
    h("thead", null, h("tr", null, corner, across.map((text) => h("th", { scope: "col" }, text ||
      "all")))),
    h("tbody", null, down.map((text) => h("tr", null, h("th", { scope: "row" }, text || "all"),
      across.map((one) => cell(cells.get(JSON.stringify([one, text])) || [], low, high))))));
}

function counted() {
  const all = [...elements.values()];
  const ended = all.filter((one) => ENDED.has(one.state));
  const failed = all.filter((one) => BAD.has(one.state));
  const running = all.filter((one) => one.state === "running").length;
  const good = ended.filter((one) => one.state === "completed");
  const times = good.map(ran).filter((time) => time !== null);
  const left = all.length - ended.length;
  const parts = [`${ended.length} of ${total} ended`];
  if (failed.length) parts.push(`${failed.length} failed`);
  parts.push(`${running} running`);
  if (left && running && times.length) {
    const mean = times.reduce((a, b) => a + b, 0) / times.length;
    const more = (mean * left) / running;
    parts.push(`about ${span(more)} to go, until ${clock(Date.now() / 1000 + more)}`);
  }
  $("#sweep-line").textContent = parts.join(", ");
  $("#sweep-progress").value = ended.length;
  const again = `Redo the ${failed.length} that failed`;
  const cancel = () => change("POST", "/api/v1/jobs:cancel", { ids: [Number(id)] }, "cancelled");
  const buttons = [
    failed.length && place.dataset.own === "1" ? button(again, () => redo(failed), { class: "main" }) :
    null,
    left ? button("Cancel all", cancel) : null,
  ];
  renew($("#sweep-buttons"), mine && can("change") ? buttons : null);
}

// One call makes one array of them; said again of the same elements it makes nothing more.
async function redo(failed) {
  const text = new TextEncoder().encode(failed.map((one) => one.id).sort().join());
  const digest = text.reduce((mixed, byte) => Math.imul(mixed ^ byte, 16777619) >>> 0, 2166136261);
  const key = { "Idempotency-Key": `redo-failed-${id}-${failed.length}-${digest}` };
  try {
    const made = await call("PATCH", `/api/v1/jobs/${id}`, { action: "retry-failed" }, key);
    note(`submitted ${failed.length} elements again as ${made.id}`);
    put($("#redone"), "Submitted again: ", jobLink(made.id, String(made.id), true));
  } catch (error) {
    note(error.message, true);
  }
}

// "3,7-9" as the first of its numbers.
function listed(indices, most) {
  const found = [];
  for (const part of indices.split(",")) {
    const [range, step] = part.split(":");
    const [from, to = from] = range.split("-").map(Number);
    for (let at = from; at <= to && found.length < most; at += Number(step || 1)) found.push(at);
  }
  return found;
}

// By what ended them, as 'rota why' tells them apart: by their exceptions, too.
let drawn = null;
const failures = paced(2000, async () => {
  const failed = [...elements.values()].filter((one) => BAD.has(one.state)).map((one) => one.id);
  if (drawn === failed.join()) return;
  drawn = failed.join();
  const groups = failed.length ? (await api(`/jobs/${id}/why`)).failures.slice(0, 20) : [];
  const shown = groups.map((one) => h("details", { open: groups.length <= 4, "data-key": one.cause },
    h("summary", null, `${one.count} failed: ${one.cause}`),
    one.last_lines.length ? h("pre", null, one.last_lines.join("\n")) : null,
    h("p", null, listed(one.indices, 40).flatMap((index) => [jobLink(`${id}_${index}`), " "]),
      one.count > 40 ? `and ${one.count - 40} more` : "")));
  renew($("#failures"), shown.length ? shown : h("p", null, "Nothing has failed."));
}, 60000);

function choices() {
  const known = [...elements.values()].find((one) => one.parameters && Object.keys(one.parameters)
    .length);
  const wanted = known ? Object.keys(known.parameters) : ["index"];
  if (wanted.join() === names.join()) return;
  names = wanted;
  const option = (text, shown = text) => h("option", { value: text }, shown);
  put($("#sweep-x"), names.map((name) => option(name)), names[0] === "index" ? null : option(
    "index"));
  put($("#sweep-y"), names.map((name) => option(name)), option("", "nothing"));
  $("#sweep-y").value = names[1] ?? "";
  put($("#sweep-colour"), option("state"), option("run time"), option("report",
  "what jobs report"));
}

async function ask() {
  const begun = [...elements.values()].filter((one) => one.started_at).map((one) => one.id);
  for (let at = 0; at < begun.length; at += ASKED) {
    const answer = await feed(`said/${id}`, { ids: begun.slice(at, at + ASKED).join(",") });
    for (const [one, said] of Object.entries(answer.items)) figures.set(Number(one), said);
    const asked = Math.min(at + ASKED, begun.length);
    $("#sweep-asked").textContent = asked < begun.length ? `asked ${asked} of ${begun.length}` : "";
  }
}

async function reported() {
  const chosen = $("#sweep-colour").value;
  if (chosen === "report") {
    await ask().catch((error) => note(error.message, true));
    const known = [...new Set([...figures.values()].flatMap((said) => Object.keys(said)))];
    if (!known.length) note("none of these jobs reports a figure", true);
    put($("#sweep-colour"), ["state", "run time", ...known.map((name) => `figure ${name}`)].map((
      text) => h("option", { value: text }, text)), h("option", { value: "report" },
      "what jobs report now"));
    $("#sweep-colour").value = known.length ? `figure ${known.at(-1)}` : "state";
  }
  legend();
  grid();
}

function legend() {
  const plain = $("#sweep-colour").value === "state";
  put($("#sweep-legend"), plain ? ["completed", "running", "queued", "cancelled", "bad"].map((
    word) => h("li", null, h("i", { class: `swatch ${word}` }), word === "bad" ? "failed" :
      word)) : h("li", null, "blue is low, red is high"));
}

async function draw(ids) {
  const answer = await feed(`elements/${id}`, ids ? { ids: ids.join(",") } : {});
  for (const one of answer.items) elements.set(one.id, one);
  choices();
  legend();
  grid();
  counted();
  failures();
}

for (const select of ["#sweep-x", "#sweep-y"]) $(select).addEventListener("change", grid);
$("#sweep-colour").addEventListener("change", reported);
let touched = new Set();
const soon = paced(500, () => {
  const ids = touched;
  touched = new Set();
  return draw(ids.has(null) || ids.size > 200 ? null : [...ids]);
});
live((news) => {
  const from = Number(id);
  if (news.jobs === null || news.jobs.includes(from)) touched.add(null);
  for (const one of news.jobs || [])
    if (one > from && one <= from + total) touched.add(one);
  if (touched.size) soon();
});

import "./common.js";
import { $, button, can, clock, gpuWish, h, hue, jobLink, memory, page, person, put, renew,
  round, settle, span, state } from "./dom.js";
import { api, change, feed, live, note, paced } from "./api.js";
import { bars } from "./chart.js";

const STATES = { free: "free", used: "in use", shared: "shared", reserved: "reserved",
  foreign: "used by others", closed: "closed", broken: "broken", elsewhere: "elsewhere" };
const strips = new Map();
// The most people that are named beside their colours.
const OWNERS = 12;
// The most nodes of a job that are named.
const NODES = 6;
// A longer name of a job is cut after two lines.
const LONG = 60;

function cell(gpu) {
  const users = gpu.users || [];
  const jobs = gpu.jobs || [];
  const words = [`GPU ${gpu.index} ${gpu.model}: ${STATES[gpu.state] || gpu.state}`];
  if (users.length) words.push(`by ${users.join(", ")}`, `job ${jobs.join(", ")}`);
  if (gpu.foreign) words.push(`process of ${gpu.foreign.join(", ")}`);
  if (gpu.state === "shared") words.push(
    `${memory(gpu.taken_mb)} of ${memory(gpu.memory_mb)} given`);
  if (gpu.use_percent !== undefined && gpu.use_percent !== null) words.push(
    `${round(gpu.use_percent, 0)} % busy`);
  if (gpu.memory_used_mib !== undefined && gpu.memory_used_mib !== null) words.push(
    `${memory(gpu.memory_used_mib)} used`);
  if (gpu.idle) words.push("idle");
  if (gpu.overused) words.push("more memory used than was asked for");
  const label = words.join(", ");
  const busy = gpu.use_percent ?? null;
  const part = gpu.state === "shared" && gpu.memory_mb ? (100 * gpu.taken_mb) / gpu.memory_mb : 100;
  const attributes = { class: `cell ${gpu.state}${gpu.overused ? " overused" : ""}`,
    title: label, "aria-label": label, vars: { "--hue": hue(users[0] ||
      ""), "--part": `${part}%` } };
  const text = busy === null ? (users[0] || "").slice(0, 3) : `${round(busy, 0)}%`;
  const held = gpu.memory_used_mib && gpu.memory_mb ? h("i", { class: "held",
    vars: { "--used": `${Math.min(100, (100 * gpu.memory_used_mib) / gpu.memory_mb)}%` } }) : null;
  if (jobs.length) return h("a", { ...attributes, href: `/web/job/${jobs[0]}` }, text, held);
  return h("span", { ...attributes, role: "img" }, text, held);
}

function bar(name, used, total, text) {
  const part = total ? Math.round((100 * used) / total) : 0;
  const label = `${name}: ${text}`;
  return h("span", { class: "meter", role: "img", title: label, "aria-label": label,
    vars: { "--part": `${part}%` } }, name);
}

function strip(node) {
  const label = node.note ? `${node.name}: ${node.state}, ${node.note}` :
    `${node.name}: ${node.state}`;
  return h(
    "li", { class: `strip ${node.state}`, "data-node": node.name },
    h("span", { class: "node", title: label }, node.name, node.state === "up" ? null : h("em",
      null, ` ${node.state}`)),
    h("span", { class: "meters" },
      bar("CPU", node.cpus_used, node.cpus, `${round(node.cpus_used)} of ${round(node.cpus)}`),
      bar("Mem", node.memory_used_mb, node.memory_mb,
        `${memory(node.memory_used_mb)} of ${memory(node.memory_mb)}`)),
    h("span", { class: "cells" }, (node.cells || []).map(cell)),
  );
}

function found(node) {
  const text = $("#machines-find").value.trim().toLowerCase();
  if (!text) return true;
  const users = (node.cells || []).flatMap((gpu) => gpu.users || []);
  return [node.name, node.state, ...users].some((word) => word.toLowerCase().includes(text));
}

function sum() {
  const cells = [...strips.values()].flatMap((one) => one.node.cells || []);
  const free = cells.filter((gpu) => gpu.state === "free").length;
  const up = [...strips.values()].filter((one) => one.node.state === "up").length;
  $("#machines-sum").textContent =
    `${up} of ${strips.size} nodes up, ${free} of ${cells.length} GPUs free`;
  $("#machines-none").hidden = strips.size > 0;
  owners(cells);
}

// Whose the colours are: the people with the most GPUs now.
function owners(cells) {
  const held = new Map();
  for (const gpu of cells) for (const user of gpu.users || []) held.set(user, (held.get(user) || 0) + 1);
  const most = [...held].sort((a, b) => b[1] - a[1] || a[0].localeCompare(b[0]));
  const told = most.slice(0, OWNERS).map(([user, count]) => h("li", { "data-key": user },
    person(user), " ", h("span", { class: "count" }, String(count))));
  const more = most.length > OWNERS ? h("li", null, `and ${most.length - OWNERS} more people`) : null;
  renew($("#owners"), told, more);
}

let measured = false;
async function drawNodes(names) {
  const answer = await feed("nodes", names ? { names: names.join(",") } : {});
  const list = $("#machines");
  measured = answer.measured;
  if (!names) strips.clear();
  for (const name of answer.gone) {
    strips.get(name)?.element.remove();
    strips.delete(name);
  }
  for (const node of answer.items) {
    const made = strip(node);
    made.hidden = !found(node);
    const before = names && strips.get(node.name);
    if (names && !before) list.append(made);
    strips.set(node.name, { node, element: before ? settle(before.element, made) : made });
  }
  if (!names) put(list, ...[...strips.values()].map((one) => one.element));
  sum();
}

const wanted = { search: "", state: "", page: 0 };

function asks(job) {
  const parts = [gpuWish(job), `${round(job.cpus)} CPU`, job.memory_mb ? memory(job.memory_mb) :
    ""];
  return (job.tasks > 1 ? `${job.tasks} × ` : "") + parts.filter(Boolean).join(", ");
}

function start(job) {
  if (job.state === "running" || job.state === "scheduled") return job.start_s ?
    `${span(Date.now() / 1000 - job.start_s)} ago` : "starting";
  if (!job.start_s) return "not known";
  if (job.planned) return h("span", { title: "as planned, if jobs run to their limits" },
    `planned ${clock(job.start_s)}`);
  const latest = job.latest_s ? `nine in ten such jobs start before ${clock(job.latest_s)}` :
    "too few jobs have started here to say how sure that is";
  return h("span", { title: latest }, `about ${clock(job.start_s)}`);
}

function deeds(job) {
  if (!can("change") || !(job.mine || can("operate"))) return "";
  // Of a row for what runs of a sweep: those that run, and those that wait for their turn.
  const ids = { ids: [job.running ? job.array : job.id] };
  const held = job.state === "held";
  const deed = (verb, text) => button(text, () => change("POST", `/api/v1/jobs:${verb}`, ids,
    `${text} ${job.ref}: done`), { "aria-label": `${text} ${job.ref}` });
  const waits = job.state === "queued" || held;
  return h("span", { class: "row" }, waits ? deed(held ? "release" : "hold", held ? "Release" :
    "Hold") : null, deed("cancel", job.running ? "Cancel all" : "Cancel"));
}

function row(job) {
  const far = (job.nodes || []).length > NODES ? ` and ${job.nodes.length - NODES} more` : "";
  const place = job.nodes?.length ? job.nodes.slice(0, NODES).join(", ") + far : job.reason || "";
  const many = job.count ? `${job.count} elements wait` : `${job.running} elements run`;
  const whole = Boolean(job.count || job.running);
  const name = whole ? `${job.name} (${many})` : job.name;
  const clamp = name.length > LONG ? { class: "clamp", title: name } : null;
  const attributes = { class: job.mine ? "mine" : "", "data-job": job.id };
  return h("tr", { ...attributes, "data-key": `${job.id}${whole ? " whole" : ""}` },
    h("td", null, jobLink(whole ? job.array : job.id, job.ref, whole)),
    h("td", { class: "long" }, h("bdi", clamp, name), job.array && !whole ? h("span", null, " in ", jobLink(job
      .array, String(job.array), true)) : null, place ? h("small", { class: "phone" }, place) : null),
    h("td", null, person(job.user)),
    h("td", null, state(job.state)), h("td", null, asks(job)), h("td", null, start(job)),
    h("td", { class: "long" }, place), h("td", null, deeds(job)));
}

let drawing = 0;
async function drawQueue() {
  const mine = (drawing += 1);
  const answer = await feed("queue", wanted);
  if (mine !== drawing) return;
  renew($("#queue tbody"), answer.items.length ? answer.items.map(row) : h("tr", null, h(
    "td", { colspan: 8 }, wanted.search || wanted.state ? "Nothing like that." :
    "Nothing runs and nothing waits.")));
  const last = Math.max(0, Math.ceil(answer.total / answer.page_rows) - 1);
  const go = (number) => () => { wanted.page = number;
    drawQueue(); };
  const first = wanted.page * answer.page_rows + 1;
  const shown = `${first} to ${first + answer.items.length - 1} of ${answer.total}`;
  renew($("#queue-pager"),
    button("Back", go(wanted.page - 1), { disabled: wanted.page <= 0 }),
    h("span", { role: "status" }, answer.items.length ? shown : `0 of ${answer.total}`),
    button("Next", go(wanted.page + 1), { disabled: wanted.page >= last }));
  const counts = answer.counts;
  const tab = (word, text) => button(`${text}${word ? ` ${counts[word] || 0}` : ""}`,
() => { wanted.state = word;
    wanted.page = 0;
    drawQueue(); }, { "aria-pressed": String(wanted.state === word), "data-key": text });
  renew($("#queue-states"), tab("", "All"), tab("mine", "Mine"), tab("running", "Running"), tab(
    "queued", "Waiting"), tab("held", "Held"));
}

const isJob = (item) => item.kind === "plan" || item.kind === "likely";

function planned(item) {
  const job = isJob(item) ? `job ${item.ref} ` : "";
  const nodes = item.nodes.length ? ` on ${item.nodes.join(", ")}` : "";
  const about = item.kind === "likely" ? "about " : "";
  const times = `${about}${clock(item.start_s)} to ${clock(item.end_s)}`;
  return `${job}${item.name} (${item.user || "all"}), ${times}${nodes}`;
}

async function drawAhead() {
  const answer = await feed("ahead");
  if (!answer.items.length) {
    renew($("#ahead"), h("p", null,
      "Nothing is planned: no waiting job has an expected start, and nothing is reserved."));
    return;
  }
  const items = answer.items.map((item, row) => {
    const href = isJob(item) ? `/web/job/${item.id}` : null;
    const whose = isJob(item) ? item.user : item.nodes.join(", ") || item.user || "all";
    return { ...item, row, text: `${item.name} (${whose})`, label: planned(item), href };
  });
  const names = items.map((item) => [item.row, isJob(item) ? `job ${item.ref}` : item.kind]);
  const ends = items.map((item) => Math.min(item.end_s, item.start_s + 12 * 3600));
  const to = Math.max(answer.now_s + 600, ...ends);
  const drawn = bars({ names, items, from: answer.now_s - 60, to, now: answer.now_s,
    label: "What starts next" });
  renew($("#ahead"), drawn, answer.more ? h("p", null, `and ${answer.more} more`) : null);
}

async function warn() {
  const status = await api("/status");
  $("#warning").hidden = !status.warning;
  $("#warning").textContent = status.warning || "";
}

put($("#legend"), Object.entries(STATES).map(([word, text]) => h("li", null, h(
"i", { class: `cell ${word}`, vars: { "--hue": 210, "--part": "60%" } }), text)));
$("#machines-find").addEventListener("input", () => { for (const one of strips.values()) one.element
    .hidden = !found(one.node); });
let typing = 0;
$("#queue-find").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(() => {
    wanted.search = $("#queue-find").value;
    wanted.page = 0;
    drawQueue();
  }, 120);
});

let touched = new Set();
const nodes = paced(300, () => {
  const names = touched;
  touched = new Set();
  return drawNodes(names.has(null) ? null : [...names]);
});
const queue = paced(500, drawQueue);
const later = paced(2000, () => Promise.all([drawAhead(), warn()]));
live((news) => {
  if (news.nodes === null) touched.add(null);
  for (const name of news.nodes || []) touched.add(name);
  if (touched.size) nodes();
  if (news.jobs === null || news.jobs.length) queue();
  later();
});
// What is measured is no event: the strips that can be seen are asked for again and again.
setInterval(() => {
  if (!measured || document.hidden || touched.size) return;
  const box = $("#machines-box").getBoundingClientRect();
  for (const { node, element } of strips.values()) {
    const at = element.getBoundingClientRect();
    if (node.cells && at.bottom > box.top && at.top < box.bottom) touched.add(node.name);
  }
  if (touched.size) nodes();
}, 5000);
addEventListener("submitted", () => drawQueue());
if (page.user === "") note("not signed in", true);

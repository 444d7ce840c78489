import "./common.js";
import { $, button, can, clock, h, jobLink, memory, put, renew, round, rows, seconds,
  span } from "./dom.js";
import { api, call, change, feed, live, note, paced } from "./api.js";
import { curve } from "./chart.js";
import { openLog } from "./log.js";
import { openTerminal } from "./terminal.js";

const place = $("#job");
const id = place.dataset.job;
const mine = place.dataset.mine === "1";
const ENDED = new Set(["completed", "failed", "cancelled", "timeout", "node_failed",
  "unschedulable"]);
let job = null;

function deeds() {
  if (!mine || !can("change")) return [];
  const verb = (word, text) => button(text, () => change("POST", `/api/v1/jobs:${word}`, { ids: [
      Number(id)
    ] }, `${text}: done`).then(draw));
  if (ENDED.has(job.state)) return [button("Redo", redo)];
  const found = [];
  if (job.held) found.push(verb("release", "Release"));
  else if (job.state === "queued") found.push(verb("hold", "Hold"));
  if (job.state === "running") found.push(job.suspended_at ? verb("resume", "Resume") : verb(
    "suspend", "Suspend"), verb("requeue", "Requeue"));
  return [...found, verb("cancel", "Cancel")];
}

async function redo() {
  const made = await change("PATCH", `/api/v1/jobs/${id}`, { action: "retry" },
  "submitted again");
  if (made) location.assign(`/web/job/${made.id}`);
}

function line() {
  const now = Date.now() / 1000;
  const began = seconds(job.started_at);
  const parts = [`submitted ${clock(seconds(job.submitted_at))} by ${job.user}`];
  if (began) parts.push(`started ${clock(began)}`,
    `ran ${span((seconds(job.ended_at) || now) - began)}`);
  if (job.time_limit_s) parts.push(`limit ${span(job.time_limit_s)}`);
  if (job.nodes.length) parts.push(`on ${job.nodes.join(", ")}`);
  if (job.exit_code !== null && job.exit_code !== undefined) parts.push(
    `exit code ${job.exit_code}`);
  $("#job-line").textContent = parts.join(" · ");
}

const pairs = (table) => Object.entries(table || {}).map(([name, value]) => `${name}=${value}`).join(", ");

function wishes(asked) {
  return [
    asked.gpus ? `${round(asked.gpus, 2)} GPU ${asked.gpu_type}`.trim() : "",
    `${round(asked.cpus)} CPU`,
    asked.memory_mb ? memory(asked.memory_mb) : "",
    job.tasks > 1 ? `${job.tasks} tasks` : "",
  ].filter(Boolean).join(", ");
}

function used(figures, asked) {
  const part = figures.cpu_efficiency;
  const cpu = part === null ? "" : `, ${round(100 * part, 0)} % of what it held`;
  const most = asked.memory_mb ? `, of ${memory(asked.memory_mb)}` : "";
  const busy = figures.gpu_efficiency ?? null;
  return [
    ["Waited", span(figures.wait_s)],
    ["CPU time", figures.cpu_s ? span(figures.cpu_s) + cpu : null],
    ["Memory", figures.peak_memory_mb ? `${memory(figures.peak_memory_mb)} at most${most}` : null],
    ["GPU time", figures.gpu_held_s ? span(figures.gpu_held_s) : null],
    ["GPU use", busy === null ? null : `${round(100 * busy, 0)} % of what it held`],
  ];
}

function facts(figures) {
  const after = job.depends_on.flatMap((one) => [jobLink(one.job), " "]);
  const array = job.array_id ? jobLink(job.array_id, `${job.array_id}`, true) : null;
  const found = [
    ["Command", job.command ? job.command.join(" ") : job.script ? "a script" : null],
    ["Folder", job.workdir],
    ["Asks for", wishes(job.resources)],
    ["Queue", `${job.queue}, priority ${job.priority}`],
    ["Project", job.project],
    ...used(figures, job.resources),
    ["Ports", job.ports.length ? `${job.ports.join(", ")}: rota forward ${id}` : null],
    ["Parameters", pairs(job.parameters)],
    ["Labels", pairs(job.labels)],
    ["After", after.length ? after : null],
    ["Array", array ? [array, ` index ${job.array_index}`] : null],
  ].filter((pair) => pair[1]);
  renew($("#job-facts"), found.flatMap(([name, told]) => [h("dt", null, name), h("dd", null, told)]));
}

async function why() {
  const told = await api(`/jobs/${id}/why`);
  $("#why-reason").textContent = told.reason || (job.state === "running" ? "It runs." : "");
  const said = told.foretold;
  const about = said ? `it will probably start about ${clock(seconds(said.expected_at))}, nine in ` +
    `ten before ${clock(seconds(said.nine_in_ten_at))}` : null;
  const known = [told.reason, `it is ${told.reason}`];
  const lines = [...told.lines.filter((text) => !known.includes(text)), about].filter(Boolean);
  renew($("#why-lines"), lines.map((text) => h("li", null, text)));
  const advices = await Promise.all(told.help.map(async (text) => {
    const at = text.lastIndexOf(": rota ");
    const command = at < 0 ? "" : text.slice(at + 2);
    const known = command && mine ? (await feed("call", { command })).call : null;
    const made = known && can(known.right) ? known : null;
    const words = at < 0 ? text : text.slice(0, at);
    const apply = async () => {
      try {
        await call(made.method, made.path, made.method === "DELETE" ? undefined : made
          .body);
        note(`${words}: done`);
      } catch (error) {
        note(error.message, true);
      }
      draw();
    };
    return h("div", { class: "advice", "data-key": text }, made ? button(words, apply, { class: "main" }) :
      h("span", null, words), command ? h("code", null, command) : null);
  }));
  renew($("#why-help"), advices.length ? h("h3", null, "What would help") : null, advices);
}

function tries() {
  $("#tried").hidden = !job.attempts.length;
  rows("#tries", job.attempts.map((one) => {
    const [began, ended] = [seconds(one.started_at), seconds(one.ended_at)];
    const ran = began ? span((ended || Date.now() / 1000) - began) : "";
    const number = job.tasks > 1 ? `${one.number} of task ${one.task}` : String(one.number);
    return [number, one.engine_node || one.node, one.state, clock(began || seconds(one
        .placed_at)), ran, one.cause || "", one.peak_memory_mb ? memory(one
      .peak_memory_mb) : ""
    ];
  }));
  $("#saved").hidden = !job.checkpoints.length;
  rows("#checkpoints", job.checkpoints.map((one) => [clock(seconds(one.saved_at)), String(one
      .attempt), one.step === null ? "" : String(one.step), memory(one.size / 1048576), one
    .note
  ]));
}

// What an event says beside its kind, where a person can read it.
function said(one) {
  const detail = { ...one.detail, ...(one.detail.outcome || {}) };
  const words = [detail.state, detail.cause, detail.note, detail.detail, detail.way];
  const node = one.detail.allocation?.node;
  return [...new Set([...words, node ? `on ${node}` : ""])].filter(Boolean).join(", ");
}

async function events() {
  const told = await api(`/jobs/${id}/events`);
  const row = (one) => [clock(seconds(one.at)), one.actor, one.kind.replaceAll("-", " "), said(one)];
  rows("#events", told.items.map(row).reverse());
}

// What the job reports of itself, as curves of what was seen while this page was open.
const curves = new Map();
let lastAt = 0;
async function progress() {
  const said = (await feed(`progress/${id}`)).progress;
  if (!said || said.at_s === lastAt) return;
  lastAt = said.at_s;
  $("#figures").hidden = false;
  $("#progress").hidden = false;
  $("#progress").value = said.fraction;
  $("#progress-text").textContent = `${round(100 * said.fraction)} % ${said.message || ""}`;
  for (const [name, value] of Object.entries(said)) {
    if (name === "at_s" || typeof value !== "number") continue;
    if (!curves.has(name)) curves.set(name, []);
    curves.get(name).push([said.at_s, value]);
  }
  drawCurves();
}

// What its last try used of the machine, against what it asked for, where nodes measure that.
let measured = [];
async function measure() {
  if (!job.started_at) return;
  const told = await api(`/jobs/${id}/curves`);
  const last = told.attempts.at(-1);
  if (!last) return;
  const gpus = last.gpus_held.length;
  const shown = [
    ["CPUs", last.cpus_used, { asked: last.asked_cpus }],
    ["Memory", last.memory_mib, { asked: last.asked_memory_mib, unit: "MiB" }],
    ["GPU use", last.gpu_use_percent, { asked: gpus ? 100 : 0, unit: "%" }],
    ["GPU memory", last.gpu_memory_mib, { asked: gpus * last.asked_gpu_memory_mib,
      unit: "MiB" }
    ],
  ];
  measured = shown.map(([name, numbers, more]) => {
    const points = numbers.map((number, at) => [seconds(last.at[at]), number]);
    return [name, points.filter((point) => point[1] !== null), more];
  });
}

function drawCurves() {
  const steps = job.checkpoints.filter((one) => one.step !== null);
  const saved = steps.map((one) => [seconds(one.saved_at), one.step]).sort((a, b) => a[0] - b[0]);
  const all = [...curves.entries(), ["checkpoint step", saved.length > 1 ? saved : []], ...
  measured];
  const known = all.filter(([, points]) => points.length);
  if (known.length) $("#figures").hidden = false;
  put($("#curves"), known.map(([name, points, more]) => curve(name, points, more)));
}

async function draw() {
  job = await api(`/jobs/${id}`);
  $("#job-name").textContent = job.name;
  const shown = $("#job-state");
  shown.textContent = job.state;
  shown.className = `state ${job.state}`;
  renew($("#job-buttons"), deeds());
  line();
  tries();
  const figures = api(`/jobs/${id}/metrics`).then((found) => {
    facts(found);
    return measure();
  });
  await Promise.all([figures, why(), events()]);
  drawCurves();
}

// What is measured is no event: it is asked for while the job runs and somebody looks.
setInterval(() => { if (!document.hidden && measured.length && job && !job.ended_at) again(); },
  5000);
const again = paced(500, () => draw());
live((news) => {
  if (news.jobs === null || news.jobs.includes(Number(id))) again();
});
setInterval(() => { if (job && !document.hidden && !job.ended_at) line(); }, 1000);
if (place.dataset.open === "1") {
  openLog(id, () => job && ENDED.has(job.state));
  const look = () => { if (!document.hidden && job && job.started_at && (!job.ended_at || !lastAt))
      progress().catch(() => null); };
  setInterval(look, 2000);
}
if ($("#terminal")) openTerminal(id);

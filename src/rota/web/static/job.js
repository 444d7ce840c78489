import "./common.js";
import { $, button, can, clock, gpuWish, h, jobLink, memory, put, renew, round, rows, seconds,
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
  // Under another name it would be another job: its owner alone has it done again.
  if (ENDED.has(job.state)) return place.dataset.own === "1" ? [button("Redo", redo)] : [];
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
    gpuWish(asked),
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
  // What is planned is among the lines; beside it an estimate would be a second time.
  const said = told.tree?.expected ? null : told.foretold;
  const most = said && said.nine_in_ten_at ?
    `, nine in ten before ${clock(seconds(said.nine_in_ten_at))}` : "";
  const about = said ?
    `it will probably start about ${clock(seconds(said.expected_at))}${most}` : null;
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
  const idle = detail.since_s ? `GPU ${detail.devices.join(", ")} idle since ${clock(detail.since_s)}` : "";
  const asked = detail.declared_mib ? `, asked for ${memory(detail.declared_mib)}` : "";
  const over = one.kind === "gpu-overused" ?
    `holds ${memory(detail.memory_mib)} on GPU ${detail.device}${asked}` : "";
  return [...new Set([...words, node ? `on ${node}` : "", over, idle])].filter(Boolean).join(", ");
}

async function events() {
  const told = await api(`/jobs/${id}/events`);
  const row = (one) => [clock(seconds(one.at)), one.actor, one.kind.replaceAll("-", " "), said(one)];
  rows("#events", told.items.map(row).reverse());
}

// Which of its tasks is looked at: by its log, its terminal and its figures.
const field = $("#task");
const task = () => Math.min(Math.max(Math.trunc(Number(field?.value)) || 0, 0), Number(field?.max ||
  0));

function where() {
  if (!field) return;
  const last = job.attempts.findLast((one) => one.task === task());
  const node = last ? `on ${last.engine_node || last.node}, ${last.state}` : "has not begun";
  $("#task-line").textContent = `of ${job.tasks}: ${node}`;
}

// What the job reports of itself, from the beginning of its last try.
let reported = [];
async function progress() {
  const said = await api(`/jobs/${id}/progress?task=${task()}`);
  const at = said.at.map(seconds);
  const points = (values) => values.map((value, place) => [at[place], value]).filter((point) =>
    point[1] !== null);
  reported = [["progress", points(said.fraction.map((part) => 100 * part)), { unit: "%", from: 0 }],
    ...Object.entries(said.figures).map(([name, values]) => [name, points(values), {}])
  ].filter(([, found]) => found.length);
  const last = said.fraction.at(-1);
  $("#progress").hidden = last === undefined;
  if (last !== undefined) $("#progress").value = last;
  $("#progress-text").textContent = last === undefined ? said.note :
    `${round(100 * last)} % ${said.message}`;
}

const charts = (used, asked, of = "") => [
  [`CPUs${of}`, used.cpus_used, { asked: asked.asked_cpus }],
  [`Memory${of}`, used.memory_mib, { asked: asked.asked_memory_mib, unit: "MiB" }],
  [`GPU use${of}`, used.gpu_use_percent, { asked: asked.gpus ? 100 : 0, unit: "%" }],
  [`GPU memory${of}`, used.gpu_memory_mib, { asked: asked.gpu_mib, unit: "MiB" }],
].map(([name, numbers, more]) => {
  const points = numbers.map((number, at) => [seconds(used.at[at]), number]);
  return [name, points.filter((point) => point[1] !== null), { from: 0, ...more }];
});

// What the last try of a task used of the machine, against what it asked for, and all together.
let measured = [];
async function measure() {
  if (!job.started_at) return;
  const told = await api(`/jobs/${id}/curves?task=${task()}`);
  const [last, sum] = [told.attempts.at(-1), told.sum];
  const gpus = last ? last.gpus_held.length : 0;
  const own = last ? charts(last, { ...last, gpus, gpu_mib: gpus * last.asked_gpu_memory_mib },
    sum ? ` of task ${task()}` : "") : [];
  measured = [...own, ...(sum ? charts(sum, { ...sum, gpu_mib: sum.asked_gpu_memory_mib },
    ` of ${sum.tasks} tasks`) : [])];
}

function drawCurves() {
  const steps = job.checkpoints.filter((one) => one.step !== null);
  const saved = steps.map((one) => [seconds(one.saved_at), one.step]).sort((a, b) => a[0] - b[0]);
  const all = [...reported, ["checkpoint step", saved.length > 1 ? saved : [], {}], ...measured];
  const known = all.filter(([, points]) => points.length);
  $("#figures").hidden = !known.length && $("#progress").hidden;
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
  where();
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
const open = place.dataset.open === "1";
// Nor is what it says of itself; of one that has ended it is asked for once.
let over = false;
const look = paced(2000, async () => {
  const ended = Boolean(job.ended_at);
  await progress();
  over = ended;
  drawCurves();
});
if (open) setInterval(() => { if (!document.hidden && job?.started_at && !over) look(); }, 2000);
const readLog = open ? openLog(id, () => job && ENDED.has(job.state), task) : null;
const closeTerminal = $("#terminal") ? openTerminal(id, task) : null;
field?.addEventListener("change", () => {
  field.value = task();
  over = false;
  readLog?.();
  closeTerminal?.();
  if (readLog) look();
  again();
});

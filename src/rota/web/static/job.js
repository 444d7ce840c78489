import "./common.js";
import { $, button, can, clock, h, jobLink, memory, paced, put, round, rows, seconds, span } from "./dom.js";
import { api, call, change, feed, live, note } from "./api.js";
import { curve } from "./chart.js";
import { openLog } from "./log.js";
import { openTerminal } from "./terminal.js";

const place = $("#job");
const id = place.dataset.job;
const mine = place.dataset.mine === "1";
const ENDED = new Set(["completed", "failed", "cancelled", "timeout", "node_failed", "unschedulable"]);
let job = null;

function deeds() {
  if (!mine || !can("change")) return [];
  const verb = (word, text) => button(text, () => change("POST", `/api/v1/jobs:${word}`, { ids: [Number(id)] }, `${text}: done`).then(draw));
  if (ENDED.has(job.state)) return [button("Redo", redo)];
  const found = [];
  if (job.held) found.push(verb("release", "Release"));
  else if (job.state === "queued") found.push(verb("hold", "Hold"));
  if (job.state === "running") found.push(job.suspended_at ? verb("resume", "Resume") : verb("suspend", "Suspend"), verb("requeue", "Requeue"));
  return [...found, verb("cancel", "Cancel")];
}

async function redo() {
  const made = await change("PATCH", `/api/v1/jobs/${id}`, { action: "retry" }, "submitted again");
  if (made) location.assign(`/web/job/${made.id}`);
}

function line() {
  const now = Date.now() / 1000;
  const began = seconds(job.started_at);
  const parts = [`submitted ${clock(seconds(job.submitted_at))} by ${job.user}`];
  if (began) parts.push(`started ${clock(began)}`, `ran ${span((seconds(job.ended_at) || now) - began)}`);
  if (job.time_limit_s) parts.push(`limit ${span(job.time_limit_s)}`);
  if (job.nodes.length) parts.push(`on ${job.nodes.join(", ")}`);
  if (job.exit_code !== null && job.exit_code !== undefined) parts.push(`exit code ${job.exit_code}`);
  $("#job-line").textContent = parts.join(" · ");
}

function facts(figures) {
  const asked = job.resources;
  const found = [
    ["Command", job.command ? job.command.join(" ") : job.script ? "a script" : null],
    ["Folder", job.workdir],
    ["Asks for", [asked.gpus ? `${round(asked.gpus, 2)} GPU ${asked.gpu_type}`.trim() : "", `${round(asked.cpus)} CPU`, asked.memory_mb ? memory(asked.memory_mb) : "", job.tasks > 1 ? `${job.tasks} tasks` : ""].filter(Boolean).join(", ")],
    ["Queue", `${job.queue}, priority ${job.priority}`],
    ["Project", job.project],
    ["Waited", figures ? span(figures.wait_s) : null],
    ["CPU time", figures && figures.cpu_s ? `${span(figures.cpu_s)}${figures.cpu_efficiency === null ? "" : `, ${round(100 * figures.cpu_efficiency, 0)} % of what it held`}` : null],
    ["Memory", figures && figures.peak_memory_mb ? `${memory(figures.peak_memory_mb)} at most${asked.memory_mb ? `, of ${memory(asked.memory_mb)}` : ""}` : null],
    ["GPU time", figures && figures.gpu_held_s ? span(figures.gpu_held_s) : null],
    ["Parameters", job.parameters && Object.keys(job.parameters).length ? Object.entries(job.parameters).map(([name, value]) => `${name}=${value}`).join(", ") : null],
    ["Labels", job.labels && Object.keys(job.labels).length ? Object.entries(job.labels).map(([name, value]) => `${name}=${value}`).join(", ") : null],
  ].filter((pair) => pair[1]);
  const after = job.depends_on.map((one) => jobLink(one.job));
  put($("#job-facts"), found.flatMap(([name, text]) => [h("dt", null, name), h("dd", null, text)]),
    after.length ? [h("dt", null, "After"), h("dd", null, after.flatMap((link) => [link, " "]))] : [],
    job.array_id ? [h("dt", null, "Array"), h("dd", null, jobLink(job.array_id, String(job.array_id), true), ` index ${job.array_index}`)] : []);
}

async function why() {
  const told = await api(`/jobs/${id}/why`);
  $("#why-reason").textContent = told.reason || (job.state === "running" ? "It runs." : "");
  put($("#why-lines"), told.lines.filter((text) => text !== told.reason).map((text) => h("li", null, text)));
  const advices = await Promise.all(told.help.map(async (text) => {
    const at = text.lastIndexOf(": rota ");
    const command = at < 0 ? "" : text.slice(at + 2);
    const made = command && mine && can("change") ? (await feed("call", { command })).call : null;
    const words = at < 0 ? text : text.slice(0, at);
    const apply = async () => {
      try {
        await call(made.method, made.path, made.method === "DELETE" ? undefined : made.body);
        note(`${words}: done`);
      } catch (error) {
        note(error.message, true);
      }
      draw();
    };
    return h("div", { class: "advice" }, made ? button(words, apply, { class: "main" }) : h("span", null, words), command ? h("code", null, command) : null);
  }));
  put($("#why-help"), advices.length ? h("h3", null, "What would help") : null, advices);
}

function tries() {
  rows("#tries", job.attempts.map((one) => {
    const [began, ended] = [seconds(one.started_at), seconds(one.ended_at)];
    const ran = began ? span((ended || Date.now() / 1000) - began) : "";
    const number = job.tasks > 1 ? `${one.number} of task ${one.task}` : String(one.number);
    return [number, one.engine_node || one.node, one.state, clock(began || seconds(one.placed_at)), ran, one.cause || "", one.peak_memory_mb ? memory(one.peak_memory_mb) : ""];
  }));
  $("#saved").hidden = !job.checkpoints.length;
  rows("#checkpoints", job.checkpoints.map((one) => [clock(seconds(one.saved_at)), String(one.attempt), one.step === null ? "" : String(one.step), memory(one.size / 1048576), one.note]));
}

async function events() {
  const told = await api(`/jobs/${id}/events`);
  rows("#events", told.items.map((one) => [clock(seconds(one.at)), one.actor, one.kind.replaceAll("-", " ")]).reverse());
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

function drawCurves() {
  const steps = job.checkpoints.filter((one) => one.step !== null).map((one) => [seconds(one.saved_at), one.step]);
  const all = [...curves.entries(), ...(steps.length > 1 ? [["checkpoint step", steps.sort((a, b) => a[0] - b[0])]] : [])];
  if (all.length) $("#figures").hidden = false;
  put($("#curves"), all.filter(([, points]) => points.length).map(([name, points]) => curve(name, points)));
}

async function draw() {
  job = await api(`/jobs/${id}`);
  $("#job-name").textContent = job.name;
  const shown = $("#job-state");
  shown.textContent = job.state;
  shown.className = `state ${job.state}`;
  put($("#job-buttons"), deeds());
  line();
  tries();
  drawCurves();
  await Promise.all([api(`/jobs/${id}/metrics`).then(facts), why(), events()]);
}

const again = paced(500, () => draw().catch((error) => note(error.message, true)));
live((news) => {
  if (news.jobs === null || news.jobs.includes(Number(id))) again();
});
setInterval(() => { if (job && !document.hidden && !job.ended_at) line(); }, 1000);
if (place.dataset.open === "1") {
  openLog(id);
  const look = () => { if (!document.hidden && job && job.started_at && (!job.ended_at || !lastAt)) progress().catch(() => null); };
  setInterval(look, 2000);
}
if ($("#terminal")) openTerminal(id);

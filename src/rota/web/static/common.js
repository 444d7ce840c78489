// What every page has: the theme, the keys, signing out, the form for a new job.
import { $, can, h, once, put, clock, seconds } from "./dom.js";
import { call, change, note } from "./api.js";

function turn() {
  const root = document.documentElement;
  root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
  localStorage.setItem("rota-theme", root.dataset.theme);
}

const EXAMPLES = { cpus: 4, memory_mb: 8192, gpus: 2, tasks: 2, minutes: 60 };

// The number in a field; undefined: it is empty, or there is no such field.
function number(form, name) {
  const field = form.elements[name];
  const text = field ? field.value.trim() : "";
  if (text === "") return undefined;
  const said = Number(text);
  if (Number.isFinite(said)) return said;
  const label = field.closest("label").firstChild.textContent.trim();
  throw new Error(`${label}: '${text}' is not valid; expected a number, such as ${EXAMPLES[name]}`);
}

// "lr=0.1,0.01; seed=1,2" as the table of all combinations.
export function table(text) {
  const parts = text.split(";").map((part) => part.trim()).filter(Boolean);
  if (!parts.length) return undefined;
  const names = [];
  let found = [
    []
  ];
  for (const part of parts) {
    const at = part.indexOf("=");
    if (at < 1) throw new Error(`parameters: '${part}' is not valid; expected name=value,value`);
    names.push(part.slice(0, at).trim());
    const values = part.slice(at + 1).split(",").map((value) => value.trim());
    found = found.flatMap((row) => values.map((value) => [...row, value]));
  }
  return { names, rows: found };
}

// What POST /jobs and POST /plan take, out of a form.
export function requested(form) {
  const given = Object.fromEntries(new FormData(form));
  const resources = { cpus: number(form, "cpus"), gpus: number(form, "gpus"),
    memory_mb: number(form, "memory_mb") };
  const minutes = number(form, "minutes");
  const parameters = table(given.parameters ?? "");
  return {
    command: given.command || "true",
    resources,
    ...(given.name ? { name: given.name } : {}),
    ...(given.workdir ? { workdir: given.workdir } : {}),
    ...(given.queue ? { queue: given.queue } : {}),
    ...(given.project ? { project: given.project } : {}),
    ...(given.tasks ? { tasks: number(form, "tasks") } : {}),
    ...(minutes !== undefined ? { time_limit_s: Math.round(minutes * 60) } : {}),
    ...(parameters ? { parameters } : {}),
    ...(given.pty ? { pty: true } : {}),
  };
}

// The answer of POST /plan in words.
export function foretold(plan) {
  const when = plan.starts ? "It would start now" : plan.start_at ?
    `It would start at ${clock(seconds(plan.start_at))}` : "Nobody can say when it would start";
  const nodes = [...new Set(plan.allocations.map((held) => held.node))];
  const lines = [nodes.length ? `${when} on ${nodes.join(", ")}.` : `${when}.`];
  if (!plan.starts && plan.reason) lines.push(plan.reason);
  if (plan.evicts.length) lines.push(`Jobs that would give way: ${plan.evicts.join(", ")}`);
  if (plan.delays.length) lines.push(`${plan.delays.length} waiting jobs would start later`);
  return [h("p", null, h("strong", null, lines[0])), ...[...lines.slice(1), ...plan.help].map((
    line) => h("p", null, line))];
}

function submitting() {
  const dialog = $("#submit-dialog");
  const form = $("#submit-form");
  const said = $("#submit-answer");
  const open = () => dialog.open || dialog.showModal();
  $("#new-job").addEventListener("click", open);
  $("#submit-close").addEventListener("click", () => dialog.close());
  $("#submit-plan").addEventListener("click", async () => {
    try {
      put(said, ...foretold(await call("POST", "/api/v1/plan", requested(form))));
    } catch (error) {
      said.textContent = error.message;
    }
  });
  const submit = async () => {
    try {
      const made = await call("POST", "/api/v1/jobs", requested(form));
      dialog.close();
      note(`submitted job ${made.id}`);
      dispatchEvent(new CustomEvent("submitted", { detail: made }));
    } catch (error) {
      said.textContent = error.message;
    }
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    once(form, submit);
  });
  return open;
}

function keys(open) {
  const links = [...document.querySelectorAll("header nav a:not(.brand)")];
  document.addEventListener("keydown", (event) => {
    const inside = event.target.closest("input, textarea, select, dialog, [role=application]");
    if (event.ctrlKey || event.metaKey || event.altKey || inside) return;
    const find = document.querySelector("[data-search]");
    if (event.key === "/" && find) find.focus();
    else if (event.key === "n" && open) open();
    else if (event.key === "t") turn();
    else if (event.key === "?") $("#keys-dialog").showModal();
    else if (/^[1-9]$/.test(event.key) && links[event.key - 1]) links[event.key - 1].click();
    else return;
    event.preventDefault();
  });
}

$("#theme").addEventListener("click", turn);
$("#sign-out")?.addEventListener("click", async () => {
  if (await change("POST", "/web/sign-out", {})) location.assign("/web/sign-in");
});
keys(can("submit") ? submitting() : null);

import "./common.js";
import { $, h, jobLink, part, person as owner, put, round, rows, seconds, span } from "./dom.js";
import { api, feed, live, paced } from "./api.js";

// What the tables were made from.
let [used, shares, unused, limits] = [[], [], [], []];

function held(now) {
  return [now.gpus ? `${round(now.gpus, 2)} GPU` : "", now.cpus ? `${round(now.cpus)} CPU` : ""]
    .filter(Boolean).join(", ");
}

function quotas(accounts) {
  const found = [];
  limits = [];
  for (const [kind, one] of accounts) {
    for (const part_ of ["hard", "soft"]) {
      for (const [name, limit] of Object.entries(one.quota?.[part_] || {})) {
        if (limit === null || typeof limit !== "number") continue;
        const now = one.used?.[name];
        limits.push([kind, one.name, name, part_, now, limit]);
        const whose = one.name === "*" ? "each user" : `${kind} ${one.name}`;
        const told = now === undefined || one.name === "*" ? ["", round(limit, 2), ""] : [round(now,
          2), round(limit, 2), part(now, limit)];
        found.push([whose, `${name.replaceAll("_", " ")}${part_ === "soft" ? " (soft)" : ""}`, ...
          told
        ]);
      }
    }
  }
  put($("#quotas tbody"), found.length ? found.map((row) => h("tr", null, row.map((cell) => h("td",
    null, cell)))) : h("tr", null, h("td", { colspan: 5 }, "No quotas are set.")));
}

// GPUs that do nothing although a job has them to itself, where nodes measure that.
async function idle() {
  const { measured } = await feed("nodes", { names: "-" });
  $("#idle").hidden = !measured;
  if (!measured) return;
  const gpus = await api("/gpus?idle=true");
  const ids = [...new Set(gpus.items.flatMap((gpu) => gpu.jobs))].slice(0, 1000);
  const jobs = ids.length ? await api(`/jobs?ids=${ids}&limit=1000`) : { items: [] };
  const owners = new Map(jobs.items.map((job) => [job.id, job.user]));
  unused = gpus.items.map((gpu) => ({ ...gpu, user: owners.get(gpu.jobs[0]) || "" }));
  const found = unused.map((gpu) => [
    owner(gpu.user),
    `${gpu.node} GPU ${gpu.index} ${gpu.model}`,
    h("span", null, gpu.jobs.flatMap((job) => [jobLink(job), " "])),
    gpu.idle_since ? span(Date.now() / 1000 - seconds(gpu.idle_since)) : "",
  ]);
  if (found.length) rows("#idle-gpus", found);
  else put($("#idle-gpus tbody"), h("tr", null, h("td", { colspan: 4 }, "No GPU is idle in a job.")));
}

// Who used the most first, and what one person used in several projects together.
function ordered(all) {
  const sums = new Map();
  const hours = (one) => [one.period.gpu_hours, one.period.cpu_hours];
  for (const one of all) {
    const sum = sums.get(one.user) || [0, 0];
    sums.set(one.user, hours(one).map((number, at) => number + sum[at]));
  }
  const more = (a, b) => b[0] - a[0] || b[1] - a[1];
  return all.toSorted((a, b) => more(sums.get(a.user), sums.get(b.user)) || a.user.localeCompare(b
    .user) || more(hours(a), hours(b)));
}

// A row for each project of a person; how the jobs fared is known of the person only.
function person(one, at, most, currency) {
  const first = used[at - 1]?.user !== one.user;
  const rowspan = used.filter((other) => other.user === one.user).length;
  const once = (...children) => (first ? h("td", { rowspan }, children) : null);
  const { jobs = 0, mean_wait_s: wait = null, success_rate: rate = null } = one.fared || {};
  return h("tr", null, once(owner(one.user)),
    h("td", null, one.project || "-"),
    h("td", null, part(one.period.gpu_hours, most), ` ${round(one.period.gpu_hours, 2)}`),
    h("td", null, round(one.period.cpu_hours, 2)),
    h("td", null, held(one.now)),
    h("td", null, one.period.cost ? `${one.period.cost.toFixed(2)} ${currency}` : ""),
    once(String(jobs)),
    once(wait === null ? "" : span(wait)),
    once(rate === null ? "" : `${round(100 * rate, 0)} %`));
}

async function draw() {
  const period = $("#period").value;
  const [usage, stats, projects, users] = await Promise.all([api(`/usage?period_s=${period}`),
    api(`/stats?period_s=${period}&longest=0`), api("/projects"), api("/users")
  ]);
  const fared = new Map(stats.items.map((one) => [one.user, one]));
  const known = new Set(usage.items.map((one) => one.user));
  // People whose jobs have only waited so far have used nothing, and are there.
  const nothing = { gpu_hours: 0, cpu_hours: 0, memory_gb_hours: 0, cost: 0 };
  const waiting = stats.items.filter((one) => !known.has(one.user));
  const all = [...usage.items, ...waiting.map((one) => ({ user: one.user, project: "", now: {},
    period: nothing }))];
  used = ordered(all).map((one) => ({ ...one, fared: fared.get(one.user) }));
  const most = Math.max(0.001, ...used.map((one) => one.period.gpu_hours));
  const body = used.map((one, at) => person(one, at, most, usage.currency));
  if (body.length) put($("#use tbody"), body);
  else put($("#use tbody"), h("tr", null, h("td", { colspan: 9 },
    "Nobody used anything in this time.")));
  shares = usage.shares;
  rows("#shares", shares.map((one) => [one.project || "-", one.user ? owner(one.user) : "(the project)",
    `${round(100 * one.target)} %`, `${round(100 * one.used)} %`, h("span", null, part(one
      .used, one.target, "more"), ` ${round(one.ratio, 2)}`)
  ]));
  quotas([...(projects.items || []).map((one) => ["project", one]), ...(users.items || []).map((
    one) => ["user", one])]);
}

// A cell that begins like a formula is a text for every program that opens the file.
function csvCell(value) {
  const text = String(value ?? "");
  const plain = /^[=+\-@\t]/.test(text) && Number.isNaN(Number(text)) ? `'${text}` : text;
  return `"${plain.replaceAll('"', '""')}"`;
}

// What each table shows, with plain numbers: its heads and its rows.
const SHEETS = {
  use: () => [["user", "project", "gpu_hours", "cpu_hours", "memory_gb_hours", "cost", "jobs",
    "mean_wait_s", "success_rate"
  ], used.map((one) => [one.user, one.project, one.period.gpu_hours, one.period.cpu_hours,
    one.period.memory_gb_hours, one.period.cost, one.fared?.jobs, one.fared?.mean_wait_s,
    one.fared?.success_rate
  ])],
  shares: () => [["project", "user", "target", "used", "used_of_target"], shares.map((one) => [one
    .project, one.user, one.target, one.used, one.ratio
  ])],
  idle: () => [["user", "node", "gpu", "model", "jobs", "idle_since"], unused.map((one) => [one.user,
    one.node, one.index, one.model, one.jobs.join(" "), one.idle_since
  ])],
  quotas: () => [["account", "name", "of", "kind", "held", "limit"], limits],
};

for (const save of document.querySelectorAll("[data-csv]")) {
  save.addEventListener("click", () => {
    const [head, found] = SHEETS[save.dataset.csv]();
    const text = [head, ...found].map((line) => line.map(csvCell).join(",")).join("\r\n");
    const file = new Blob([text], { type: "text/csv" });
    const link = h("a", { href: URL.createObjectURL(file), download: `rota-${save.dataset.csv}.csv` });
    link.click();
    URL.revokeObjectURL(link.href);
  });
}
const again = paced(5000, () => Promise.all([draw(), idle()]));
$("#period").addEventListener("change", () => draw());
live(again);
// Time goes on although nothing happens.
setInterval(() => document.hidden || again(), 30000);

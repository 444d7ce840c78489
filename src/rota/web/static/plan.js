import "./common.js";
import { foretold, requested } from "./common.js";
import { $, clock, h, part, put, renew, round, span } from "./dom.js";
import { call, feed, live, paced } from "./api.js";
import { bars } from "./chart.js";

const KINDS = { past: "ran", running: "runs, to its limit", plan: "is expected to run",
  reservation: "is reserved", maintenance: "maintenance" };

async function draw() {
  const answer = await feed("gantt", { hours: $("#hours").value, find: $("#gantt-find").value });
  const items = answer.items.flatMap((one) => {
    const job = one.kind !== "reservation" && one.kind !== "maintenance";
    const text = `${job ? `job ${one.ref} ` : ""}${one.name} (${one.user || "all"})`;
    const times = `${clock(one.start_s)} to ${clock(one.end_s)}`;
    const label = `${text}: ${KINDS[one.kind]}, ${times}${one.gpus ? `, ${one.gpus} GPUs` : ""}`;
    const href = job ? `/web/job/${one.id}` : null;
    const rows = one.nodes.length ? one.nodes : answer.nodes;
    return rows.map((row) => ({ ...one, row, text, label, href }));
  });
  const drawn = bars({
    names: answer.nodes.map((name) => [name, name]),
    items,
    from: answer.since_s,
    to: answer.until_s,
    now: answer.now_s,
    label: "Jobs by node and time",
  });
  const first = !$("#gantt svg");
  renew(
    $("#gantt"),
    answer.nodes.length ? drawn : h("p", null, $("#gantt-find").value ? "No node is named like that." :
      "No node has joined yet."),
  );
  const cut = [
    answer.more ? `${answer.more} more nodes are not drawn: find them by name` : "",
    answer.past ? `of the jobs that ended only the newest ${answer.past} are drawn` : "",
  ].filter(Boolean);
  $("#gantt-cut").hidden = !cut.length;
  $("#gantt-cut").textContent = `Not all is here: ${cut.join("; ")}.`;
  if (first) showNow();
}

// Where the page is narrower than the chart it opens at the present, a little of the past beside.
function showNow() {
  const [box, now] = [$("#gantt"), $("#gantt .now")];
  if (!now) return;
  const at = now.getBoundingClientRect().left - box.getBoundingClientRect().left;
  const names = $("#gantt .names").getBoundingClientRect().width;
  box.scrollLeft = Math.max(0, at - names - (box.clientWidth - names) / 3);
}

put($("#gantt-legend"), Object.entries(KINDS).map(([kind, text]) => h("li", null, h(
"i", { class: `swatch of-${kind}` }), text)));
$("#hours").addEventListener("change", () => draw());
let typing = 0;
$("#gantt-find").addEventListener("input", () => {
  clearTimeout(typing);
  typing = setTimeout(draw, 200);
});
$("#if-form")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    put($("#if-answer"), ...foretold(await call("POST", "/api/v1/plan", requested(event
      .target))));
  } catch (error) {
    put($("#if-answer"), h("p", { class: "bad" }, error.message));
  }
});
// Policies side by side: the present rules first, then each that was played on the same jobs.
const FIGURES = [
  ["mean wait", (one) => one.mean_wait_s, span],
  ["median wait", (one) => one.median_wait_s, span],
  ["95 % waited at most", (one) => one.p95_wait_s, span],
  ["mean bounded slowdown", (one) => one.mean_bounded_slowdown, (number) => round(number, 2)],
  ["use of the machines", (one) => 100 * one.utilization, (number) => `${round(number)} %`],
  ["preemptions", (one) => one.preemptions, String],
];
const played = new Map();

function compare() {
  const columns = [...played.entries()];
  const figure = ([name, read, show]) => {
    const most = Math.max(...columns.map(([, one]) => read(one.all)), 1e-9);
    const cell = ([, one]) => h("td", null, part(read(one.all), most), ` ${show(read(one.all))}`);
    return h("tr", null, h("th", { scope: "row" }, name), columns.map(cell));
  };
  const users = [...new Set(columns.flatMap(([, one]) => [...one.users.keys()]))].sort();
  const user = (name) => {
    const waits = ([, one]) => h("td", null, one.users.has(name) ? span(one.users.get(name)) : "");
    return h("tr", null, h("th", { scope: "row" }, `mean wait of ${name}`), columns.map(waits));
  };
  const head = columns.map(([name]) => h("th", { scope: "col" }, name));
  $("#rules-box").hidden = false;
  put(
    $("#rules"),
    h("thead", null, h("tr", null, h("th", { scope: "col" }, "Figure"), head)),
    h("tbody", null, FIGURES.map(figure), users.map(user)),
  );
}

$("#rules-form")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = event.target;
  const asked = { policy: form.elements.policy.value, last_s: Number(form.elements.last_s.value) };
  const line = $("#rules-line");
  line.textContent = "playing the jobs of this site";
  try {
    const found = await call("POST", "/api/v1/policy:replay", asked);
    const waits = (field) => new Map(found.users.map((one) => [one.name, one[field]]));
    if (played.get("now")?.last_s !== asked.last_s) played.clear();
    played.set("now", { all: found.before, users: waits("wait_before_s"), last_s: asked.last_s });
    played.set(asked.policy, { all: found.after, users: waits("wait_after_s") });
    line.textContent = [`${found.jobs} jobs`, ...found.notes].join("; ");
    compare();
  } catch (error) {
    line.textContent = error.message;
  }
});

const again = paced(3000, () => draw());
live(again);
// Time goes on although nothing happens.
setInterval(() => document.hidden || again(), 30000);

import "./common.js";
import { foretold, requested } from "./common.js";
import { $, clock, h, put } from "./dom.js";
import { call, feed, live, paced } from "./api.js";
import { bars } from "./chart.js";

const KINDS = { past: "ran", running: "runs, to its limit", plan: "is expected to run",
  reservation: "is reserved", maintenance: "maintenance" };

async function draw() {
  const answer = await feed("gantt", { hours: $("#hours").value });
  const items = answer.items.flatMap((one) => {
    const job = one.kind !== "reservation" && one.kind !== "maintenance";
    const text = `${job ? `job ${one.id} ` : ""}${one.name} (${one.user || "all"})`;
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
  put(
    $("#gantt"),
    answer.nodes.length ? drawn : h("p", null, "No node has joined yet."),
    answer.more ? h("p", null, `and ${answer.more} more nodes`) : null,
  );
}

put($("#gantt-legend"), Object.entries(KINDS).map(([kind, text]) => h("li", null, h(
"i", { class: `swatch of-${kind}` }), text)));
$("#hours").addEventListener("change", draw);
$("#if-form")?.addEventListener("submit", async (event) => {
  event.preventDefault();
  try {
    put($("#if-answer"), ...foretold(await call("POST", "/api/v1/plan", requested(event
      .target))));
  } catch (error) {
    put($("#if-answer"), h("p", { class: "bad" }, error.message));
  }
});
const again = paced(3000, () => draw());
live(again);

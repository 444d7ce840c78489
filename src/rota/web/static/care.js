import "./common.js";
import { $, LONG, button, can, clock, h, put, renew, rows, seconds, span,
  state } from "./dom.js";
import { api, change, feed, live, note, paced } from "./api.js";

// A head that says nothing for so long is taken to be gone.
const GONE_S = 5;
let machines = [];
let nowS = 0;

function deeds(node) {
  const path = `/api/v1/nodes/${encodeURIComponent(node.name)}`;
  const resume = () => change("POST", `${path}:resume`, {}, `${node.name} takes work again`).then(draw);
  const back = button("Resume", resume, { "aria-label": `Resume ${node.name}` });
  if (node.drained) return back;
  const drain = () => {
    const reason = prompt(`Why is ${node.name} drained?`);
    if (reason !== null) change("POST", `${path}:drain`, { note: reason },
      `${node.name} finishes its jobs`).then(draw);
  };
  const close = button("Drain", drain, { "aria-label": `Drain ${node.name}` });
  return node.quarantined ? h("span", { class: "row" }, back, close) : close;
}

function table() {
  const text = $("#nodes-find").value.trim().toLowerCase();
  const found = machines.filter((node) => !text || [node.name, node.note || "", node.state].some((
    word) => word.toLowerCase().includes(text)));
  // By the clock of the server: that of the browser may differ.
  const heard = (node) => (node.heard_s ? `${span(nowS - node.heard_s)} ago` : "never");
  rows("#nodes", found.map((node) => [
    h("strong", null, node.name), state(node.state), node.connected ? heard(node) :
    `away, ${heard(node)}`,
    node.engine ? `engine ${node.engine}` : node.version || "", String(node.jobs), String(node
      .gpus), node.note || "", node.by || "", deeds(node),
  ]), ([name]) => name.textContent);
}

async function draw() {
  const answer = await feed("care");
  [machines, nowS] = [answer.items, answer.now_s];
  const told = await api("/notify/status").catch(() => null);
  const found = [...answer.findings];
  for (const target of told?.receivers || [])
    if (target.problem) found.push({ level: "warn", what: `notify ${target.name}`, seen: target
        .problem, advice: "" });
  put($("#findings"), found.map((one) => h("li", null, state(one.level), " ", h("strong", null,
    one.what), ` ${one.seen}`, one.advice ? `: ${one.advice}` : "")));
  $("#heads-section").hidden = !answer.heads.length;
  rows("#heads", answer.heads.map((head) => [h("strong", null, head.url), state(head.leads ?
    "leads" : head.silent_s > GONE_S ? "silent" : head.unfit ? "unfit" : "stands by"),
  head.leads ? "now" : `${head.silent_s} s ago`,
  head.leads || head.lag_s === null ? "-" : `${head.lag_s} s`, head.version]));
  $("#pending").hidden = !answer.pending.length;
  renew($("#pending-list"), answer.pending.map((node) => h("li", { class: "row", "data-key": node
    .name }, h("strong", null,
      node.name), ` ${node.home}, asked ${clock(seconds(node.asked_at))}`,
    button("Approve", () => change("POST",
      `/api/v1/nodes/${encodeURIComponent(node.name)}:approve`, {},
      `${node.name} may join`).then(
  draw), { class: "main", "aria-label": `Approve ${node.name}` }))));
  table();
}

let before = 0;
async function audit(older) {
  const words = new URLSearchParams([...new FormData($("#audit-form"))].filter((pair) => pair[
  1]));
  words.set("limit", "50");
  if (older && before) words.set("before", String(before));
  const answer = await api(`/audit?${words}`);
  before = answer.before;
  const found = answer.items.map((one) => [clock(seconds(one.at)), one.user, one.action, one
    .object, [one.via, one.address].filter(Boolean).join(", "), one.refused || ""
  ]);
  if (!older) rows("#audit", []);
  $("#audit tbody").append(...found.map((row) => h("tr", null, row.map((text) => h("td", { class: text
    .length > LONG ? "long" : null }, text)))));
  $("#audit-more").hidden = !before;
}

$("#nodes-find").addEventListener("input", table);
if (can("administer")) {
  const show = (older) => audit(older).catch((error) => note(error.message, true));
  $("#audit-form").addEventListener("submit", (event) => { event.preventDefault();
    show(false); });
  $("#audit-more").addEventListener("click", () => show(true));
  show(false);
}
const again = paced(1500, () => draw());
live((news) => { if (news.nodes === null || news.nodes.length) again(); });
setInterval(() => { if (!document.hidden) again(); }, 20000);

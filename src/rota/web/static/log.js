// What a job printed, as it prints it: both streams, each on a connection of its own.
import { $, button, h, put } from "./dom.js";
import { note, raw } from "./api.js";

// So many lines are in the document; the oldest go.
const LINES = 5000;
const TAIL = 2000;

export function openLog(job) {
  const box = $("#log");
  const follow = $("#log-follow");
  const shown = { stdout: true, stderr: true };
  const rest = { stdout: "", stderr: "" };
  let stop = new AbortController();

  function add(stream, text) {
    const parts = (rest[stream] + text).split("\n");
    rest[stream] = parts.pop();
    const lines = parts.slice(-LINES).map((line) => h("div", { class: stream, hidden: !shown[
        stream] }, line || "\u00a0"));
    box.append(...lines);
    while (box.childElementCount > LINES) box.firstElementChild.remove();
    if (follow.checked) box.scrollTop = box.scrollHeight;
  }

  async function read(stream) {
    const mine = stop.signal;
    const path = `/api/v1/jobs/${job}/logs?stream=${stream}&follow=true&tail=${TAIL}`;
    try {
      const answer = await fetch(path, { signal: mine, headers: { "X-Rota-Page": "1" } });
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        add(stream, value);
      }
      if (rest[stream]) add(stream, "\n");
    } catch (error) {
      if (!mine.aborted) note(`log: ${error.message}`, true);
    }
  }

  function begin() {
    stop.abort();
    stop = new AbortController();
    rest.stdout = rest.stderr = "";
    put(box);
    read("stdout");
    read("stderr");
  }

  async function search(text) {
    stop.abort();
    const found = [];
    for (const stream of ["stdout", "stderr"]) {
      if (!shown[stream]) continue;
      const words = new URLSearchParams({ stream, search: text, ignore_case: "true",
        numbers: "true", limit: "500" });
      const answer = await raw(`/api/v1/jobs/${job}/logs?${words}`);
      const body = await answer.text();
      found.push(...body.split("\n").filter(Boolean).map((line) => h("div", { class: stream }, ...
        marked(line, text))));
    }
    put(box, h("div", { class: "note" }, `${found.length} lines with '${text}'`), ...found);
  }

  function draw() {
    const tab = (stream, text) => button(text, () => { shown[stream] = !shown[stream]; for (const
          line of box.querySelectorAll(`.${stream}`)) line.hidden = !shown[stream];
      draw(); }, { "aria-pressed": String(shown[stream]) });
    put($("#log-streams"), tab("stdout", "Output"), tab("stderr", "Errors"));
  }

  const field = $("#log-find");
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") field.value = "";
    if (event.key === "Escape" || (event.key === "Enter" && !field.value)) begin();
    else if (event.key === "Enter") search(field.value).catch((error) => note(error.message,
      true));
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) stop.abort();
    else if (!field.value) begin();
  });
  addEventListener("pagehide", () => stop.abort());
  draw();
  begin();
}

function marked(line, text) {
  const parts = [];
  const low = line.toLowerCase();
  const wanted = text.toLowerCase();
  let from = 0;
  for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, from)) {
    parts.push(line.slice(from, at), h("mark", null, line.slice(at, at + text.length)));
    from = at + text.length;
  }
  return [...parts, line.slice(from)];
}

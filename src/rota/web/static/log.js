// What a job printed, as it prints it: both streams in the order they were written, on one line to
// the server. A browser has six of these, for all of its windows together.
import { $, button, h, put, renew } from "./dom.js";
import { Refused, note, raw } from "./api.js";

// The most lines in the document; the oldest go.
const LINES = 5000;
const TAIL = 2000;
// So long after a line broke it is tried again.
const AGAIN_MS = 2000;
// Before each piece: which stream it is of, and how long it is.
const HEAD = 5;
// The most lines that one search brings, and where it says that it goes on.
const HITS = 500;
const NEXT = ["Rota-Log-Next", "Rota-Log-Next-Line"];
const STREAMS = { o: "stdout", e: "stderr" };

// Takes pieces apart; tells each whole one.
function unpacked(tell) {
  const decoders = { stdout: new TextDecoder(), stderr: new TextDecoder() };
  let rest = new Uint8Array();
  return (bytes) => {
    const all = new Uint8Array(rest.length + bytes.length);
    all.set(rest);
    all.set(bytes, rest.length);
    let at = 0;
    while (at + HEAD <= all.length) {
      const size = new DataView(all.buffer, at + 1).getUint32(0);
      if (at + HEAD + size > all.length) break;
      const stream = STREAMS[String.fromCharCode(all[at])];
      const body = all.subarray(at + HEAD, at + HEAD + size);
      tell(stream, decoders[stream].decode(body, { stream: true }));
      at += HEAD + size;
    }
    rest = all.slice(at);
  };
}

// `over` says whether nothing more can come, `task` which task is read. Gives what reads it anew.
export function openLog(job, over, task) {
  const box = $("#log");
  const follow = $("#log-follow");
  const shown = { stdout: true, stderr: true };
  const rest = { stdout: "", stderr: "" };
  let stop = new AbortController();
  let later = 0;

  function add(stream, text) {
    const parts = (rest[stream] + text).split("\n");
    rest[stream] = parts.pop();
    const lines = parts.slice(-LINES).map((line) => h("div", { class: stream, hidden: !shown[
        stream] }, line || "\u00a0"));
    box.append(...lines);
    while (box.childElementCount > LINES) box.firstElementChild.remove();
    if (follow.checked) box.scrollTop = box.scrollHeight;
  }

  async function read() {
    const mine = stop.signal;
    const words = `stream=both&follow=true&frames=true&tail=${TAIL}&task=${task()}`;
    try {
      const answer = await raw(`/api/v1/jobs/${job}/logs?${words}`, { signal: mine });
      rest.stdout = rest.stderr = "";
      put(box);
      const reader = answer.body.getReader();
      const take = unpacked(add);
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        take(value);
      }
      for (const stream of ["stdout", "stderr"]) if (rest[stream]) add(stream, "\n");
    } catch (error) {
      if (mine.aborted) return;
      // Of a server that is away the line at the top tells.
      if (error instanceof Refused && error.status < 500) {
        note(`log: ${error.message}`, true);
        return;
      }
    }
    later = setTimeout(() => over() || begin(), AGAIN_MS);
  }

  function end() {
    stop.abort();
    clearTimeout(later);
  }

  function begin() {
    end();
    stop = new AbortController();
    read();
  }

  // Of a stream that has more lines than one answer holds it says where they begin.
  async function found(stream, text, from) {
    const words = new URLSearchParams({ stream, search: text, ignore_case: "true",
      numbers: "true", limit: String(HITS), task: task(), ...from });
    const answer = await raw(`/api/v1/jobs/${job}/logs?${words}`);
    const [offset, line] = NEXT.map((name) => answer.headers.get(name));
    const lines = (await answer.text()).split("\n").filter(Boolean);
    return { lines: lines.map((one) => h("div", { class: stream }, ...marked(one, text))),
      next: offset === null ? null : { offset, line } };
  }

  async function search(text, from = { stdout: {}, stderr: {} }) {
    end();
    if (!from.again) put(box, h("div", { class: "note" }));
    const next = { again: true };
    for (const stream of Object.values(STREAMS)) {
      if (!shown[stream] || !from[stream]) continue;
      const answer = await found(stream, text, from[stream]);
      box.append(...answer.lines);
      if (answer.next) next[stream] = answer.next;
    }
    const count = box.childElementCount - 1;
    const words = `${count} ${count === 1 ? "line" : "lines"} with '${text}'`;
    const more = next.stdout || next.stderr;
    renew(box.firstElementChild, more ? `${words}, and there are more ` : words,
      more ? button("Find more", () => search(text, next).catch(told)) : null);
  }

  function draw() {
    const tab = (stream, text) => button(text, () => { shown[stream] = !shown[stream]; for (const
          line of box.querySelectorAll(`.${stream}`)) line.hidden = !shown[stream];
      draw(); }, { "aria-pressed": String(shown[stream]) });
    renew($("#log-streams"), tab("stdout", "Output"), tab("stderr", "Errors"));
  }

  const field = $("#log-find");
  const told = (error) => note(error.message, true);
  const anew = () => (field.value ? search(field.value).catch(told) : begin());
  field.addEventListener("keydown", (event) => {
    if (event.key === "Escape") field.value = "";
    if (event.key === "Escape" || (event.key === "Enter" && !field.value)) begin();
    else if (event.key === "Enter") anew();
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) end();
    else if (!field.value) begin();
  });
  addEventListener("pagehide", end);
  draw();
  begin();
  return anew;
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

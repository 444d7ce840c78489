// The terminal of a job: the server keeps its screen, the page draws lines and sends keys.
import { $, h, put } from "./dom.js";

const KEYS = { Enter: "\r", Backspace: "\x7f", Tab: "\t", Escape: "\x1b", ArrowUp: "\x1b[A",
  ArrowDown: "\x1b[B", ArrowRight: "\x1b[C", ArrowLeft: "\x1b[D", Home: "\x1b[H", End: "\x1b[F",
  Delete: "\x1b[3~", PageUp: "\x1b[5~", PageDown: "\x1b[6~" };
const PLAIN = /^[a-z]+$/;

function looks([, fore, back, bold, reversed]) {
  const names = [];
  if (fore !== "default" && PLAIN.test(fore)) names.push(fore.replace("bright", ""));
  if (back !== "default" && PLAIN.test(back)) names.push(`on-${back.replace("bright", "")}`);
  if (bold) names.push("b");
  if (reversed) names.push("r");
  return names.join(" ");
}

// `task` tells whose terminal is opened. Gives what closes it.
export function openTerminal(job, task) {
  const box = $("#terminal");
  const said = $("#terminal-line");
  const coder = new TextEncoder();
  let socket = null;
  let screen = [];
  let cursor = null;

  function draw(row) {
    const runs = screen[row] || [];
    const at = cursor && cursor[0] === row ? cursor[1] : -1;
    const parts = [];
    let column = 0;
    for (const run of runs) {
      const text = run[0];
      if (at >= column && at < column + text.length) {
        const inside = at - column;
        parts.push(h("span", { class: looks(run) }, text.slice(0, inside)), h(
        "span", { class: "cursor" }, text[inside]), h("span", { class: looks(run) }, text.slice(
          inside + 1)));
      } else parts.push(h("span", { class: looks(run) }, text));
      column += text.length;
    }
    put(box.children[row], ...parts);
  }

  function show(news) {
    while (box.childElementCount < news.size[0]) box.append(h("div", null));
    while (box.childElementCount > news.size[0]) box.lastElementChild.remove();
    const before = cursor?.[0];
    cursor = news.cursor;
    for (const [row, runs] of Object.entries(news.lines)) screen[row] = runs;
    for (const row of new Set([...Object.keys(news.lines).map(Number), before, cursor?.[0]])) {
      if (row !== undefined && row < news.size[0]) draw(row);
    }
  }

  function size() {
    const probe = h("span", null, "0".repeat(10));
    box.append(h("div", null, probe));
    const wide = probe.getBoundingClientRect().width / 10;
    probe.parentElement.remove();
    const columns = Math.max(40, Math.min(200, Math.floor((box.clientWidth - 14) / (wide || 8))));
    socket.send(JSON.stringify({ rows: 24, columns }));
  }

  const type = (text) => socket?.readyState === 1 && socket.send(coder.encode(text));

  box.addEventListener("keydown", (event) => {
    if (event.metaKey || event.altKey || (event.shiftKey && event.key === "Tab")) return;
    let text = KEYS[event.key] || (event.key.length === 1 ? event.key : "");
    if (event.ctrlKey) {
      if (!/^[a-z[\]\\]$/i.test(event.key)) return;
      text = String.fromCharCode(event.key.toUpperCase().charCodeAt(0) - 64);
    }
    if (!text) return;
    event.preventDefault();
    type(text);
  });
  box.addEventListener("paste", (event) => {
    event.preventDefault();
    type(event.clipboardData.getData("text"));
  });

  const open = $("#terminal-open");
  open.addEventListener("click", () => {
    if (socket) {
      socket.close();
      return;
    }
    box.hidden = false;
    screen = [];
    put(box);
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    socket = new WebSocket(`${scheme}://${location.host}/web/terminal/${job}?task=${task()}`);
    socket.onopen = () => {
      said.textContent = "connected; Shift+Tab leaves it";
      open.textContent = "Close";
      size();
      box.focus();
    };
    socket.onmessage = (event) => show(JSON.parse(event.data));
    socket.onclose = (event) => {
      said.textContent = event.reason || "closed";
      open.textContent = "Open";
      socket = null;
    };
  });
  return () => socket?.close();
}

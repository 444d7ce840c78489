// The same REST calls as the command line makes; a header says that a page of ours makes them.
import { h, $ } from "./dom.js";

export class Refused extends Error {
  constructor(text, status) {
    super(text);
    this.status = status;
  }
}

// Too much was asked at once, and nothing was done: asked again when the server says, a few times.
async function patiently(ask) {
  let answer = await ask();
  for (let left = 3; answer.status === 429 && left; left -= 1) {
    const pause = Number(answer.headers.get("Retry-After"));
    if (!(pause <= 10)) break;
    await new Promise((go) => setTimeout(go, 1000 * pause));
    answer = await ask();
  }
  return answer;
}

async function answered(method, path, body, more = {}, named = {}) {
  const headers = { "X-Rota-Page": "1", ...named };
  const asked = { method, headers, credentials: "same-origin", ...more };
  if (body !== undefined) {
    headers["Content-Type"] = "application/json";
    asked.body = JSON.stringify(body);
  }
  const answer = await patiently(() => fetch(path, asked));
  if (answer.status === 401 && document.documentElement.dataset.user) {
    const here = location.pathname + location.search;
    location.assign(`/web/sign-in?next=${encodeURIComponent(here)}`);
    // This page is over: nothing goes on with an answer that never comes.
    return new Promise(() => {});
  }
  if (!answer.ok) {
    const problem = await answer.json().catch(() => ({}));
    throw new Refused(problem.detail || answer.statusText || String(answer.status), answer.status);
  }
  return answer;
}

export async function call(method, path, body, named = {}) {
  const text = await (await answered(method, path, body, {}, named)).text();
  return text ? JSON.parse(text) : null;
}

export const get = (path) => call("GET", path);
export const api = (path) => get(`/api/v1${path}`);
export const feed = (name, words = {}) => get(`/web/feed/${name}?${new URLSearchParams(words)}`);
export const raw = (path, more) => answered("GET", path, undefined, more);

// A line for the person, gone after a while.
export function note(text, bad = false) {
  const line = h("p", { class: bad ? "bad" : "good" }, text);
  $("#notes").append(line);
  setTimeout(() => line.remove(), bad ? 12000 : 6000);
}

// Make a change; what went wrong is told.
export async function change(method, path, body, told) {
  try {
    const answer = await call(method, path, body);
    if (told) note(told);
    return answer ?? {};
  } catch (error) {
    note(error.message, true);
    return null;
  }
}

// Again when something changed, but not more often than this, and the rarer the longer it takes:
// an open page asks for about a hundredth of the server's time, however large the site is.
export function paced(least, deed, most = 5000) {
  let [timer, busy, wanted, next] = [0, false, false, 0];

  function plan() {
    clearTimeout(timer);
    timer = setTimeout(run, Math.max(0, next - Date.now()));
  }
  async function run() {
    [busy, wanted] = [true, false];
    const begin = Date.now();
    try {
      await deed();
    } catch (error) {
      // Of a server that is away the line at the top tells.
      if (error instanceof Refused) note(error.message, true);
    }
    next = begin + Math.min(most, Math.max(least, 100 * (Date.now() - begin)));
    busy = false;
    if (wanted) plan();
  }
  return () => {
    wanted = true;
    if (!busy) plan();
  };
}

// Tells what changed while the page can be seen; {nodes: null, jobs: null} means: anything.
export function live(heard) {
  let source = null;
  const line = $("#line");
  const say = (text) => {
    line.textContent = text;
    line.className = `line ${text}`;
  };

  function open() {
    if (source || document.hidden) return;
    source = new EventSource("/web/live");
    source.onopen = () => {
      say("live");
      heard({ nodes: null, jobs: null });
    };
    source.onerror = broken;
    source.addEventListener("change", (event) => heard(JSON.parse(event.data)));
  }
  // A browser comes back by itself from a line that broke, but not from an answer that refuses it.
  async function broken() {
    say("connecting");
    if (source?.readyState !== EventSource.CLOSED) return;
    source = null;
    await api("/status").catch(() => null);
    setTimeout(open, 2000);
  }

  function look() {
    if (document.hidden && source) {
      source.close();
      source = null;
      say("paused");
    } else open();
  }
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", () => source?.close());
  open();
}

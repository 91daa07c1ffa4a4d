// The page: asks, follows a run's news, and redraws at most once a frame. All it loads comes from its own server.

import { Climb } from "./climb.js";
import { Lines } from "./lines.js";
import { listRuns } from "./runs.js";
import { State } from "./state.js";
import { $, banner, chips, make, reader, tiles, votes, walk, write } from "./view.js";

const STRATEGIES = ["ddc", "sure", "deepconf-low", "deepconf-high", "esc", "ac", "sc"];
const EXAMPLES = ["86 + 77 - 162 / 27 = ?", "997 + (3108 / 28 * 870 - 780) + 250 * 760 = ?", "(48 * 17 - 96 / 4) * 3 + 512 = ?"];
let state = new State(), lines = null, climb = null, chosen = null, due = false, following = null, readAt = 0, showing = false;

// -- drawing

function colour(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }
let palette = {};
const ink = name => (palette[name] ??= colour(name));

function redraw() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    if ($("run").hidden) return;
    banner(state); tiles(state); votes(state); chips(state, chosen, select);
    lines.redraw(); climb.redraw();
    const now = state.standing;
    write("lines-says", !now ? "" : lines.reads
      ? `mean confidence of the last ${now.window} tokens; a cross is a path that was cut short, a dot one that ended by itself`
      : "this strategy reads no confidence: a line a path, as long as its tokens");
    write("climb-says", now && now.bar === null ? "this strategy has no measure to draw" : "");
    write("climb-name", now?.rises === false ? "What going on is still worth" : "How near to settled");
    const running = !state.over && !state.error;
    $("stop").hidden = !running || !state.run; $("go").hidden = running && Boolean(state.run);
  });
}

function fresh() {
  state = new State(); chosen = null; palette = {};
  for (const id of ["lines", "climb", "chips", "votes", "fates", "text"]) $(id).replaceChildren();
  $("reader").hidden = true; $("error").hidden = true; $("kept").hidden = true; $("run").hidden = false;
  lines?.plot.destroy(); climb?.plot.destroy();
  lines = new Lines($("lines"), state, ink, select);
  climb = new Climb($("climb"), state, ink);
}

function fail(title, message) {
  $("error").hidden = false;
  $("error").firstElementChild.textContent = title;
  $("error").lastElementChild.textContent = message;
}

// -- a run's news

async function follow(id) {
  following?.abort();
  const here = following = new AbortController();
  fresh();
  redraw();
  for (let patience = 0; !here.signal.aborted && patience < 6; patience++) {
    try {
      const reply = await fetch(`/api/runs/${encodeURIComponent(id)}/events`, { signal: here.signal });
      if (!reply.ok) { gone(await reply.json()); return; }
      if (patience) { Object.assign(state, new State()); $("error").hidden = true; }
      await read(reply.body, () => { patience = 0; });
      if (state.over || state.error) return;
    } catch (error) {
      if (here.signal.aborted) return;
    }
    fail("The server does not answer.", "Trying again…");
    await new Promise(wake => setTimeout(wake, 400 * 2 ** patience));
  }
  if (!here.signal.aborted) fail("The server is gone.", "Reload the page once it is back.");
}

function gone(said) {
  $("run").hidden = true;
  fail("There is nothing to show.", said.error?.message ?? "");
}

async function read(body, heard) {
  const pieces = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await pieces.read();
    if (done) return;
    heard();
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) if (event.startsWith("data: ")) take(JSON.parse(event.slice(6)));
  }
}

function take(news) {
  state.take(news);
  if (news.run) write("asked", news.run.question);
  if (news.error) fail(title(news.error), news.error.message);
  if (chosen !== null && news.paths?.some(path => path.path === chosen) && Date.now() - readAt > 700) load(chosen);
  redraw();
}

function title(error) {
  const known = { upstream_unavailable: "The model's server cannot be reached.", missing_logprobs: "The model's server sends no log-probabilities.",
    model_not_found: "There is no such model.", rate_limit_exceeded: "The server is busy." };
  return known[error.code] ?? "That did not work.";
}

// -- reading a path

function select(number) {
  chosen = number;
  lines.chosen = number;
  redraw();
  load(number, true);
}

async function load(number, show = false) {
  readAt = Date.now();
  const path = state.paths[number];
  if (!path) return;
  const reply = path.tokens ? await fetch(`/api/runs/${encodeURIComponent(state.run.id)}/paths/${number}`) : null;
  const found = reply?.ok ? await reply.json() : null;
  if (chosen !== number) return;
  reader(state, path, found);
  if (show) { $("reader").focus({ preventScroll: true }); $("reader").scrollIntoView({ block: "nearest" }); }
}

function unselect() {
  const back = $("chips").children[chosen];
  chosen = null; lines.chosen = null;
  $("reader").hidden = true;
  back?.focus();
  redraw();
}

// -- asking

async function ask(event) {
  event?.preventDefault();
  const question = $("question").value.trim();
  if (!question) return;
  const options = $("options").value.trim();
  const body = {
    model: $("model").value, messages: [{ role: "user", content: question }],
    sureenough: { strategy: $("strategy").value + (options ? `:${options}` : ""), paths: Number($("paths").value),
      parallel: Number($("parallel").value), seed: Number($("seed").value) },
  };
  $("error").hidden = true;
  try {
    const reply = await fetch("/api/runs", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
    const said = await reply.json();
    if (!reply.ok) { fail(title(said.error), said.error.message); return; }
    history.pushState(null, "", `/runs/${said.id}`);
    follow(said.id);
  } catch { fail("The server does not answer.", "Is it still running?"); }
}

async function models() {
  try {
    const reply = await fetch("/v1/models"), said = await reply.json();
    if (!reply.ok) { fail(title(said.error), said.error.message); return; }
    const plain = said.data.map(one => one.id).filter(id => !STRATEGIES.includes(id.split("@").at(-1)));
    showing = !plain.length;
    if (showing) $("ask").hidden = true;
    $("model").replaceChildren(...plain.map(id => make("option", "", id)));
    if (plain.includes("built-in")) {
      $("examples").hidden = false;
      for (const text of EXAMPLES) {
        const button = make("button", "example", text);
        button.type = "button";
        button.addEventListener("click", () => { $("question").value = text; $("question").focus(); });
        $("examples").append(button);
      }
    }
  } catch { fail("The server does not answer.", "Is it still running?"); }
}

// -- light and dark

const THEMES = ["system", "light", "dark"];
function theme(name) {
  if (name === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
  localStorage.setItem("theme", name);
  write("theme", `Theme: ${name}`);
  palette = {};
  redraw();
}

function route() {
  following?.abort();
  const run = location.pathname.match(/^\/runs\/([\w-]+)$/), list = location.pathname === "/runs";
  $("nav-ask").toggleAttribute("aria-current", !list);
  $("nav-runs").toggleAttribute("aria-current", list);
  $("ask").hidden = list || showing; $("kept").hidden = !list; $("run").hidden = true; $("error").hidden = true;
  $("stop").hidden = true; $("go").hidden = false;
  if (list) listRuns(fail); else if (run) follow(run[1]);
}

$("strategy").replaceChildren(...STRATEGIES.map(name => make("option", "", name)));
$("ask").addEventListener("submit", ask);
$("question").addEventListener("keydown", event => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) ask(event); });
$("stop").addEventListener("click", () => fetch(`/api/runs/${encodeURIComponent(state.run.id)}`, { method: "DELETE" }));
$("close").addEventListener("click", unselect);
$("chips").addEventListener("keydown", walk);
document.addEventListener("keydown", event => { if (event.key === "Escape" && chosen !== null) unselect(); });
$("theme").addEventListener("click", () => theme(THEMES[(THEMES.indexOf(localStorage.getItem("theme") ?? "system") + 1) % 3]));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { palette = {}; redraw(); });
addEventListener("resize", () => { if (!$("run").hidden) { lines.resize(); climb.resize(); redraw(); } });
addEventListener("popstate", route);
theme(localStorage.getItem("theme") ?? "system");
models();
route();

// The page: starts runs, receives the lines of their logs, and redraws at most once per frame. It loads files of its own server only.

import { listRuns } from "./kept_runs.js";
import { $, moveFocus, setText, showChips, showPath, showStatus, showTiles, showVotes } from "./panels.js";
import { PathChart } from "./path_chart.js";
import { fillForm, requestBody, showDefaults } from "./request_form.js";
import { RunState } from "./run_state.js";
import { StopRuleChart } from "./stop_rule_chart.js";

let state = new RunState(), pathChart = null, stopChart = null, selected = null, scheduled = false, subscription = null, loadedAt = 0, canAsk = true;

// -- drawing

let palette = {};
const colour = name => (palette[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim());

function redraw() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    if ($("run").hidden) return;
    showStatus(state); showTiles(state); showVotes(state); showChips(state, selected, select);
    pathChart.redraw(); stopChart.redraw();
    const summary = state.summary;
    setText("path-chart-note", !summary ? "" : pathChart.hasConfidence
      ? `mean confidence of the last ${summary.window} tokens; a cross marks a path that was cut short, a dot one that ended by itself`
      : "this strategy does not use confidence: one line per path, as long as its tokens");
    setText("stop-chart-note", summary && state.stop.threshold === null ? "this strategy's stop rule has no measure" : "");
    setText("stop-chart-name", state.measureName ?? "Stop rule");
    const running = !state.result && !state.error;
    $("stop").hidden = !running || !state.run; $("go").hidden = running && Boolean(state.run);
  });
}

function reset() {
  state = new RunState(); selected = null; palette = {};
  for (const id of ["path-chart", "stop-chart", "chips", "votes", "fates", "text"]) $(id).replaceChildren();
  $("reader").hidden = true; $("error").hidden = true; $("kept").hidden = true; $("empty").hidden = true; $("run").hidden = false;
  pathChart?.plot.destroy(); stopChart?.plot.destroy();
  pathChart = new PathChart($("path-chart"), state, colour, select);
  stopChart = new StopRuleChart($("stop-chart"), state, colour);
}

function showError(title, message) {
  $("error").hidden = false;
  $("error").firstElementChild.textContent = title;
  $("error").lastElementChild.textContent = message;
}

function errorTitle(error) {
  const titles = { upstream_unavailable: "The upstream cannot be reached.", missing_logprobs: "The upstream sends no log-probabilities.",
    model_not_found: "The model does not exist.", rate_limit_exceeded: "The server is busy." };
  return titles[error.code] ?? "The request failed.";
}

const NO_RESPONSE = ["No response from the server.", "Is it still running?"];

// -- the log of a run

async function subscribe(id) {
  subscription?.abort();
  const current = subscription = new AbortController();
  reset();
  redraw();
  for (let attempt = 0; !current.signal.aborted && attempt < 6; attempt++) {
    try {
      const response = await fetch(`/api/runs/${encodeURIComponent(id)}/events`, { signal: current.signal });
      if (!response.ok) { showMissing((await response.json()).error); return; }
      if (attempt) { Object.assign(state, new RunState()); $("error").hidden = true; }
      await readEvents(response.body, () => { attempt = 0; });
      if (state.result || state.error) return;
    } catch (error) {
      if (current.signal.aborted) return;
    }
    showError(NO_RESPONSE[0], "Trying again…");
    await new Promise(wake => setTimeout(wake, 400 * 2 ** attempt));
  }
  if (!current.signal.aborted) showError("The connection to the server is lost.", "Reload the page when it is back.");
}

function showMissing(error) {
  $("run").hidden = true;
  showError("There is nothing to show.", error?.message ?? "");
}

async function readEvents(body, onData) {
  const parts = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await parts.read();
    if (done) return;
    onData();
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) if (event.startsWith("data: ")) apply(JSON.parse(event.slice(6)));
  }
}

function apply(line) {
  state.apply(line);
  if (line.run) setText("run-question", line.run.question ?? "");
  if (line.error) showError(errorTitle(line.error), line.error.message);
  if (selected !== null && line.paths?.some(path => path.path === selected) && Date.now() - loadedAt > 700) loadPath(selected);
  redraw();
}

// -- reading a path

function select(number) {
  selected = number;
  pathChart.selected = number;
  redraw();
  loadPath(number, true);
}

async function loadPath(number, scroll = false) {
  loadedAt = Date.now();
  const path = state.paths[number];
  if (!path) return;
  const response = path.tokens ? await fetch(`/api/runs/${encodeURIComponent(state.run.id)}/paths/${number}`) : null;
  const text = response?.ok ? await response.json() : null;
  if (selected !== number) return;
  showPath(state, path, text);
  if (scroll) { $("reader").focus({ preventScroll: true }); $("reader").scrollIntoView({ block: "nearest" }); }
}

function deselect() {
  const chip = $("chips").children[selected];
  selected = null; pathChart.selected = null;
  $("reader").hidden = true;
  chip?.focus();
  redraw();
}

// -- starting a run

async function submit(event) {
  event?.preventDefault();
  const question = $("question").value.trim();
  if (!question || !$("ask").reportValidity()) return;
  $("error").hidden = true;
  try {
    const response = await fetch("/api/runs", { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(requestBody(question)) });
    const data = await response.json();
    if (!response.ok) { showError(errorTitle(data.error), data.error.message); return; }
    history.pushState(null, "", `/runs/${data.id}`);
    subscribe(data.id);
  } catch { showError(...NO_RESPONSE); }
}

async function loadForm() {
  try {
    canAsk = await fillForm();
    if (!canAsk) $("ask").hidden = $("empty").hidden = true;
  } catch (error) {
    if (error.message && error.type) showError(errorTitle(error), error.message); else showError(...NO_RESPONSE);
  }
}

// -- light and dark

const THEMES = ["system", "light", "dark"];
function setTheme(name) {
  if (name === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = name;
  localStorage.setItem("theme", name);
  setText("theme", `Theme: ${name}`);
  palette = {};
  redraw();
}

function route() {
  subscription?.abort();
  const run = location.pathname.match(/^\/runs\/([\w-]+)$/), list = location.pathname === "/runs";
  $("nav-ask").toggleAttribute("aria-current", !list);
  $("nav-runs").toggleAttribute("aria-current", list);
  $("ask").hidden = $("empty").hidden = list || !canAsk; $("kept").hidden = !list; $("run").hidden = true; $("error").hidden = true;
  $("stop").hidden = true; $("go").hidden = false;
  if (list) listRuns(showError); else if (run) subscribe(run[1]);
}

$("ask").addEventListener("submit", submit);
$("strategy").addEventListener("change", showDefaults);
$("question").addEventListener("keydown", event => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event); });
$("stop").addEventListener("click", () => fetch(`/api/runs/${encodeURIComponent(state.run.id)}`, { method: "DELETE" }));
$("close").addEventListener("click", deselect);
$("chips").addEventListener("keydown", moveFocus);
document.addEventListener("keydown", event => { if (event.key === "Escape" && selected !== null) deselect(); });
$("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(localStorage.getItem("theme") ?? "system") + 1) % 3]));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { palette = {}; redraw(); });
addEventListener("resize", () => { if (!$("run").hidden) { pathChart.resize(); stopChart.resize(); redraw(); } });
addEventListener("popstate", route);
setTheme(localStorage.getItem("theme") ?? "system");
loadForm();
route();

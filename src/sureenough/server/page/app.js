// The page: starts runs, follows their logs, and redraws at most once per frame. It loads files of its own server only.

import { Comparison } from "./comparison.js";
import { $, base, setText } from "./dom.js";
import { listRuns } from "./kept_runs.js";
import { showLearned } from "./learned.js";
import { moveFocus, showChips, showStatus, showTiles, showVotes } from "./panels.js";
import { PathPanel } from "./path_panel.js";
import { finalPart, showPath } from "./reader.js";
import { fillForm, requestBodies, showDefaults } from "./request_form.js";
import { NO_RESPONSE, errorTitle, fetchPath, follow, startRun, stopRun } from "./run_feed.js";
import { RunState } from "./run_state.js";
import { showSearch } from "./search_tree.js";
import { StopRuleChart } from "./stop_rule_chart.js";

const TEXT_INTERVAL = 700;  // milliseconds between two requests for the text of a path that grows
let state = new RunState(), pathPanel = null, stopChart = null, comparison = null, subscription = null;
let runId = null, selected = null, scheduled = false, loadedAt = 0, canAsk = true;

// -- drawing

let palette = {};
const colour = name => (palette[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim());
const highlight = numbers => pathPanel?.highlight(numbers);

function redraw() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    if (comparison) comparison.redraw(); else if (!$("run").hidden) redrawRun();
    const running = comparison ? comparison.running.length > 0 : !$("run").hidden && Boolean(state.run) && !state.isOver;
    $("stop").hidden = !running; $("go").hidden = running;
  });
}

function redrawRun() {
  showStatus(state); showTiles(state); showVotes(state, $("votes"), $("votes-note"), highlight); showChips(state, selected, select, highlight);
  pathPanel.redraw();
  showSearch(state, selected);
  if (!$("stop-card").hidden) stopChart.redraw();
  setText("path-chart-name", state.showsConfidence ? "Confidence of every path" : "Tokens of every path");
  setText("path-chart-note", describeChart());
  setText("stop-chart-name", state.measureName ?? "Stop rule");
  $("chart-mode").hidden = !state.showsConfidence || state.paths.length < 2;
  setText("chart-mode", pathPanel.boxed ? "Show one chart" : "Show one box per path");
}

function describeChart() {
  const summary = state.summary, marks = "a cross marks a path that was cut short, a dot one that ended by itself";
  if (!summary) return "";
  if (summary.reads_confidence === false) return `this strategy does not use confidence; ${marks}`;
  if (!state.showsConfidence) return `the engine watches its paths itself and reports their numbers of tokens; ${marks}`;
  const chosen = state.result?.window_paths ? `, a window chosen from the lengths of ${state.result.window_paths} paths` : "";
  const scales = pathPanel.boxed ? `; every box shows ${state.range.join(" to ")} over 0 to ${state.longest} tokens` : "";
  return `mean confidence of the last ${summary.window} tokens${chosen}${scales}; ${marks}`;
}

function hideAll() {
  subscription?.abort(); comparison?.close(); comparison = null;
  for (const id of ["error", "kept", "empty", "run", "comparison", "learned"]) $(id).hidden = true;
}

function reset() {
  hideAll();
  state = new RunState(); selected = null; palette = {};
  $("run").dataset.state = "running";
  pathPanel?.destroy(); stopChart?.destroy();
  for (const id of ["path-chart", "stop-chart", "chips", "votes", "fates", "text", "notes"]) $(id).replaceChildren();
  $("reader").hidden = $("winner").hidden = $("search-card").hidden = true; $("run").hidden = $("stop-card").hidden = false;
  pathPanel = new PathPanel($("path-chart"), state, colour, select);
  stopChart = new StopRuleChart($("stop-chart"), state, colour);
}

function showError(title, message) {
  $("error").hidden = false;
  $("error").firstElementChild.textContent = title;
  $("error").lastElementChild.textContent = message;
}

// -- one run, or two side by side

function subscribe(id) {
  reset();
  redraw();
  runId = id;
  subscription = new AbortController();
  follow(id, subscription.signal, {
    restart: () => { Object.assign(state, new RunState()); $("error").hidden = true; },
    apply,
    isOver: () => state.isOver,
    showMissing: error => { $("run").hidden = true; showError("There is nothing to show.", error?.message ?? ""); },
    showError,
  });
}

function apply(line) {
  state.apply(line);
  if (line.run) setText("run-question", line.run.question ?? "");
  if (line.error) showError(errorTitle(line.error), line.error.message);
  if (line.result) showWinner();
  if (selected !== null && line.paths?.some(path => path.path === selected) && Date.now() - loadedAt > TEXT_INTERVAL) loadPath(selected);
  redraw();
}

function compare(ids) {
  hideAll();
  palette = {};
  $("comparison").hidden = false;
  comparison = new Comparison(ids, colour, redraw, showError);
  redraw();
}

// -- reading a path

async function showWinner() {
  const current = state, path = state.winner, text = path && await fetchPath(runId, path.number);
  if (!text || state !== current) return;
  setText("winner-name", `${state.answer === null ? "No answer was found in" : "The answer is from"} path ${path.number}`);
  setText("winner-text", finalPart(text.texts));
  $("winner").hidden = false;
}

function select(number) {
  selected = pathPanel.selected = number;
  redraw();
  loadPath(number, true);
}

async function loadPath(number, scroll = false) {
  loadedAt = Date.now();
  const path = state.paths[number];
  if (!path) return;
  const text = path.tokens ? await fetchPath(runId, number) : null;
  if (selected !== number) return;
  showPath(state, path, text);
  if (scroll) { $("reader").focus({ preventScroll: true }); $("reader").scrollIntoView({ block: "nearest" }); }
}

function deselect() {
  const chip = [...$("chips").children].find(one => one.path === selected);
  selected = pathPanel.selected = null;
  $("reader").hidden = true;
  chip?.focus();
  redraw();
}

// -- starting runs

async function submit(event) {
  event?.preventDefault();
  const question = $("question").value.trim();
  if (!question || !$("ask").reportValidity()) return;
  $("error").hidden = true;
  const started = await Promise.allSettled(requestBodies(question).map(startRun));
  const ids = started.filter(run => run.value).map(run => run.value), failed = started.find(run => run.status === "rejected");
  if (failed) {
    for (const id of ids) stopRun(id);
    const error = failed.reason;
    if (error.type) showError(errorTitle(error), error.message); else showError(...NO_RESPONSE);
    return;
  }
  history.pushState(null, "", base + (ids.length === 1 ? `/runs/${ids[0]}` : `/compare/${ids.join("/")}`));
  route();
  $("results").scrollIntoView();  // on a phone the form fills the screen
}

async function loadForm() {
  try {
    const form = await fillForm();
    canAsk = form.canAsk;
    if (!canAsk) $("ask").hidden = $("empty").hidden = true;
    if (form.refusal && document.documentElement.dataset.view === "ask") showError("This page cannot start runs.", form.refusal);
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
  const path = location.pathname.slice(base.length);
  const run = path.match(/^\/runs\/([\w-]+)$/), pair = path.match(/^\/compare\/([\w-]+)\/([\w-]+)$/);
  const list = path === "/runs", settings = path === "/settings";
  hideAll();
  document.documentElement.dataset.view = run || pair ? "run" : list ? "runs" : settings ? "settings" : "ask";
  $("nav-ask").toggleAttribute("aria-current", !list && !settings);
  $("nav-runs").toggleAttribute("aria-current", list);
  $("nav-settings").toggleAttribute("aria-current", settings);
  $("ask").hidden = $("empty").hidden = list || settings || !canAsk; $("kept").hidden = !list;
  $("stop").hidden = true; $("go").hidden = false;
  if (list) listRuns(showError); else if (pair) compare(pair.slice(1)); else if (run) subscribe(run[1]); else if (settings) showLearned();
}

$("ask").addEventListener("submit", submit);
for (const id of ["strategy", "other-strategy"]) $(id).addEventListener("change", showDefaults);
$("question").addEventListener("keydown", event => { if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) submit(event); });
$("stop").addEventListener("click", () => { for (const id of comparison?.running ?? [runId]) stopRun(id); });
$("close").addEventListener("click", deselect);
$("winner-open").addEventListener("click", () => { if (state.winner) select(state.winner.number); });
$("chart-mode").addEventListener("click", () => { pathPanel.toggle(); redraw(); });
$("chips").addEventListener("keydown", moveFocus);
document.addEventListener("keydown", event => { if (event.key === "Escape" && selected !== null) deselect(); });
$("theme").addEventListener("click", () => setTheme(THEMES[(THEMES.indexOf(localStorage.getItem("theme") ?? "system") + 1) % 3]));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { palette = {}; redraw(); });
addEventListener("popstate", route);
setTheme(localStorage.getItem("theme") ?? "system");
loadForm();
route();

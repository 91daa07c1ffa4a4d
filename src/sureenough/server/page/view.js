// The parts of the page that are words: tiles, votes, chips and the reader. Text goes in as text nodes, never as markup.

import { WORDS, fate } from "./state.js";

export const $ = id => document.getElementById(id);
const number = new Intl.NumberFormat("en");

export function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

export function write(id, text) {
  const element = $(id);
  if (element.textContent !== text) element.textContent = text;
}

export function tiles(state) {
  const now = state.standing;
  if (!now) return;
  write("t-paths", String(now.started));
  write("t-budget", `of ${now.budget} at most`);
  write("t-tokens", number.format(now.made));
  write("t-plain", now.plain ? `plain voting: about ${number.format(Math.round(now.plain))}` : "");
  const saved = now.plain ? 1 - now.made / now.plain : null;
  write("t-saved", saved === null ? "–" : saved > 0 ? `${Math.round(saved * 100)} %` : "0 %");
  write("t-saved-says", `${state.over ? "" : "so far, "}against plain voting on the whole budget`);
  fates(state.counts());
  meter(state, now);
}

function fates(counts) {
  const list = $("fates");
  for (const [kind, words] of Object.entries(WORDS)) {
    let item = list.querySelector(`.f-${kind}`);
    if (!counts[kind]) { item?.remove(); continue; }
    if (!item) { item = make("li", `f-${kind}`); item.append(make("span")); list.append(item); }
    const text = `${counts[kind]} ${words}`;
    if (item.firstChild.textContent !== text) item.firstChild.textContent = text;
  }
}

function meter(state, now) {
  const rises = now.rises !== false, value = state.measure;
  const name = now.bar === null ? "Stop rule" : rises ? "Posterior" : "Worth of going on";
  write("m-name", name);
  write("t-measure", value === null || value === undefined ? "–" : value.toFixed(value > 0.99 && value < 1 ? 4 : 3));
  write("t-bar", now.bar === null ? "" : rises ? `stops above ${now.bar}` : `stops at ${now.bar} or less`);
  $("run").toggleAttribute("data-settled", state.settled);
  const scale = rises ? 1 : Math.max(now.bar ?? 0, ...state.steps.map(step => step[2] ?? 0)) || 1;
  $("m-fill").style.width = `${Math.min(100, 100 * (value ?? 0) / scale)}%`;
  $("m-bar").hidden = now.bar === null;
  $("m-bar").style.left = `${Math.min(99.4, 100 * (now.bar ?? 0) / scale)}%`;
}

export function votes(state) {
  const now = state.standing, list = $("votes");
  if (!now) return;
  const all = now.votes, total = all.reduce((sum, [, weight]) => sum + (weight ?? 0), 0) || 1;
  const heads = new Map();
  for (const path of state.paths) if (path?.vote != null) heads.set(path.vote, (heads.get(path.vote) ?? 0) + 1);
  const shown = all.slice(0, 7);
  while (list.children.length > shown.length) list.lastChild.remove();
  shown.forEach(([answer, weight], at) => {
    const row = list.children[at] ?? list.appendChild(bar());
    const share = (weight ?? 0) / total;
    if (row.children[0].textContent !== answer) { row.children[0].textContent = answer; row.children[0].title = answer; }
    row.children[1].firstChild.style.width = `${100 * share}%`;
    const said = `${Math.round(100 * share)} % · ${heads.get(answer) ?? 0}`;
    if (row.children[2].textContent !== said) row.children[2].textContent = said;
  });
  const rest = all.length - shown.length, silent = state.counts().silent;
  const words = [];
  if (!all.length) words.push(now.warmup && now.counted === 0 ? `${now.warmup} paths run to their end before anything is counted` : "nobody has voted yet");
  else words.push("share of the weight · paths");
  if (rest > 0) words.push(`${rest} more answers`);
  if (silent) words.push(`${silent} gave no answer`);
  write("votes-says", words.join("; "));
}

function bar() {
  const row = make("li"), track = make("div", "track");
  track.append(make("div", "fill"));
  row.append(make("span", "a"), track, make("span", "n"));
  return row;
}

export function banner(state) {
  const now = state.standing, run = $("run");
  run.dataset.state = state.error ? "error" : state.over ? "over" : "running";
  if (state.error) {
    write("lead-word", "Failed"); write("answer", "No answer"); write("says", state.error.message);
    return;
  }
  write("lead-word", state.over ? "Answer" : state.leader === null ? "Thinking" : "Leading");
  write("answer", state.leader ?? (state.over ? "none" : "…"));
  if (!now) { write("says", "Waiting for the first token."); return; }
  const counts = state.counts(), ends = { settled: "The vote is settled", budget: "The budget is spent", max_tokens: "The cap on tokens was reached",
    deadline: "The deadline passed", interrupted: "Stopped", engine: "The engine was lost" };
  if (state.over) {
    const notes = (state.over.notes ?? []).filter(note => note.startsWith("paths were lost"));
    write("says", `${ends[state.over.reason]} after ${now.counted} paths. ${state.over.why} ${notes.join(" ")}`);
  } else if (now.counted === 0 && now.warmup) {
    write("says", `Warm-up: ${counts.waiting} of ${now.warmup} paths have ended. Then the line below which paths are pruned is drawn.`);
  } else write("says", now.why || `${counts.running} paths are growing.`);
}

// -- chips: one a path, a list that arrow keys walk

export function chips(state, chosen, select) {
  const host = $("chips");
  for (const path of state.paths) {
    if (!path) continue;
    const chip = host.children[path.number] ?? host.appendChild(newChip(path.number, select));
    const kind = state.kind(path), picked = chosen === path.number;
    const name = `chip f-${kind}`;
    if (chip.className !== name) { chip.className = name; chip.title = `path ${path.number}: ${fate(state, path)}`; chip.setAttribute("aria-label", chip.title); }
    if (chip.getAttribute("aria-selected") !== String(picked)) chip.setAttribute("aria-selected", String(picked));
  }
  if (host.children.length && !host.querySelector('[tabindex="0"]')) host.children[0].tabIndex = 0;
}

function newChip(at, select) {
  const chip = make("button", "chip");
  chip.type = "button"; chip.tabIndex = -1;
  chip.setAttribute("role", "option");
  chip.append(make("span", "", String(at)));
  chip.addEventListener("click", () => select(at));
  return chip;
}

export function walk(event) {
  const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key], host = $("chips");
  const edge = { Home: 0, End: host.children.length - 1 }[event.key];
  if ((step === undefined && edge === undefined) || !host.children.length) return;
  event.preventDefault();
  const at = [...host.children].indexOf(document.activeElement);
  const next = edge ?? Math.min(host.children.length - 1, Math.max(0, at + step));
  for (const chip of host.children) chip.tabIndex = -1;
  host.children[next].tabIndex = 0;
  host.children[next].focus();
}

// -- one path's words

export function reader(state, path, found) {
  $("reader").hidden = false;
  write("reader-title", `Path ${path.number}`);
  const answer = path.answer == null ? "" : `; its answer: ${path.answer}`;
  write("reader-says", `${fate(state, path)}, ${number.format(path.tokens)} tokens${answer}`);
  const text = document.createDocumentFragment(), conf = found?.conf ?? [];
  const shade = shades(conf);
  let last = null;
  (found?.words ?? []).forEach((word, at) => {
    const level = conf.length ? shade(conf[at]) : 7;
    if (last?.dataset.level === String(level)) { last.firstChild.data += word; return; }
    last = make("span", `c${level}`);
    last.dataset.level = String(level);
    last.append(document.createTextNode(word));
    text.append(last);
  });
  $("text").replaceChildren(text);
  const scale = $("scale");
  scale.replaceChildren();
  if (!conf.length) { scale.append(found?.words?.length ? "This strategy reads no confidence, so nothing is shaded." : "It has said nothing."); return; }
  scale.append("least sure ");
  for (let level = 0; level < 8; level++) scale.append(make("i", `c${level}`, "\u00a0"));
  scale.append(" most sure, within this path");
}

function shades(conf) {
  const sorted = conf.filter(value => value !== null).sort((a, b) => a - b);
  const low = sorted[Math.floor(sorted.length * 0.02)] ?? 0, high = sorted[Math.floor(sorted.length * 0.7)] ?? 1;
  return value => (value === null ? 7 : Math.max(0, Math.min(7, Math.floor(8 * (value - low) / (high - low || 1)))));
}

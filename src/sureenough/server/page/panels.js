// The panels of text: status, tiles, votes, chips and the reader. Text is inserted as text nodes, never as markup.

import { KIND_LABELS, describeFate } from "./run_state.js";

export const $ = id => document.getElementById(id);
const number = new Intl.NumberFormat("en");

export function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

export function setText(id, text) {
  const node = $(id);
  if (node.textContent !== text) node.textContent = text;
}

export function showTiles(state) {
  const summary = state.summary;
  if (!summary) return;
  setText("paths-started", String(summary.started));
  setText("budget", `of ${summary.budget} at most`);
  const plain = summary.full_budget_tokens, saved = plain ? 1 - summary.tokens / plain : null;
  const discarded = state.result?.tokens?.discarded ?? 0;
  setText("tokens", number.format(summary.tokens));
  setText("plain-tokens", [
    ...(discarded ? [`${number.format(discarded)} discarded: running, or not yet counted, at the end`] : []),
    ...(plain ? [`plain voting: about ${number.format(Math.round(plain))}`] : []),
  ].join("; "));
  setText("saved", saved === null ? "–" : saved > 0 ? `${Math.round(saved * 100)} %` : "0 %");
  setText("saved-note", `${state.result ? "" : "so far, "}compared with plain voting on the whole budget`);
  showFates(state.counts());
  showMeter(state, summary);
}

function showFates(counts) {
  const list = $("fates");
  for (const [kind, label] of Object.entries(KIND_LABELS)) {
    let item = list.querySelector(`.f-${kind}`);
    if (!counts[kind]) { item?.remove(); continue; }
    if (!item) { item = element("li", `f-${kind}`); item.append(element("span")); list.append(item); }
    const text = `${counts[kind]} ${label}`;
    if (item.firstChild.textContent !== text) item.firstChild.textContent = text;
  }
}

function showMeter(state, summary) {
  const value = summary.measure, { threshold, stops_above: above } = state.stop;
  setText("measure-name", state.measureName ?? "Stop rule");
  setText("measure", value === null ? "–" : value.toFixed(value > 0.99 && value < 1 ? 4 : 3));
  setText("threshold", threshold === null ? "" : above ? `stops above ${threshold}` : `stops at ${threshold} or less`);
  const equal = state.equalPosterior;
  setText("equal-posterior", equal === null ? "" : `${equal.toFixed(equal > 0.99 && equal < 1 ? 4 : 3)} with every path counted as one vote`);
  $("run").toggleAttribute("data-settled", state.settled);
  const scale = above ? 1 : Math.max(threshold ?? 0, ...state.steps.map(step => step[2] ?? 0)) || 1;
  $("meter-fill").style.width = `${Math.min(100, 100 * (value ?? 0) / scale)}%`;
  $("meter-threshold").hidden = threshold === null;
  $("meter-threshold").style.left = `${Math.min(99.4, 100 * (threshold ?? 0) / scale)}%`;
}

export function showVotes(state) {
  const summary = state.summary, list = $("votes");
  if (!summary) return;
  const votes = summary.votes, total = votes.reduce((sum, [, weight]) => sum + (weight ?? 0), 0) || 1;
  const counts = new Map();
  for (const path of state.paths) if (path?.vote != null) counts.set(path.vote, (counts.get(path.vote) ?? 0) + 1);
  const shown = votes.slice(0, 7);
  while (list.children.length > shown.length) list.lastChild.remove();
  shown.forEach(([path, weight], at) => {
    const row = list.children[at] ?? list.appendChild(voteRow());
    const share = (weight ?? 0) / total, answer = state.answerOf(path) ?? "";
    if (row.children[0].textContent !== answer) { row.children[0].textContent = answer; row.children[0].title = answer; }
    row.children[1].firstChild.style.width = `${100 * share}%`;
    const label = `${Math.round(100 * share)} % · ${counts.get(path) ?? 0}`;
    if (row.children[2].textContent !== label) row.children[2].textContent = label;
  });
  const hidden = votes.length - shown.length, silent = state.counts().silent;
  const notes = [];
  if (votes.length) notes.push("share of the weight · paths");
  else notes.push(summary.warmup && summary.counted === 0 ? `votes are counted after ${summary.warmup} warm-up paths` : "no votes yet");
  if (hidden > 0) notes.push(`${hidden} more answers`);
  if (silent) notes.push(`${silent} gave no answer`);
  setText("votes-note", notes.join("; "));
}

function voteRow() {
  const row = element("li"), track = element("div", "track");
  track.append(element("div", "fill"));
  row.append(element("span", "a"), track, element("span", "n"));
  return row;
}

const ENDINGS = { settled: "The vote is settled", budget: "The budget is spent", max_tokens: "The limit on tokens was reached",
  deadline: "The deadline passed", interrupted: "Stopped", engine: "The upstream was lost", no_answer: "No path gave an answer" };

export function showStatus(state) {
  const { summary, result, error } = state;
  $("run").dataset.state = error ? "error" : result ? "over" : "running";
  if (error) {
    setText("answer-label", "Failed"); setText("answer", "No answer"); setText("status", error.message);
    return;
  }
  setText("answer-label", result ? "Answer" : state.answer === null ? "Thinking" : "Leading");
  setText("answer", state.answer ?? (result ? "none" : "…"));
  if (!summary) { setText("status", "Waiting for the first token."); return; }
  const counts = state.counts();
  if (result) {
    const notes = (result.notes ?? []).filter(note => result.answer === null || note.startsWith("paths were lost"));
    setText("status", `${ENDINGS[result.reason] ?? "Ended"} after ${summary.counted} paths. ${result.why ?? ""} ${notes.join(" ")}`);
  } else if (summary.counted === 0 && summary.warmup) {
    setText("status", `Warm-up: ${counts.waiting} of ${summary.warmup} paths have ended. After it paths below a threshold are pruned.`);
  } else setText("status", summary.why || `${counts.running} paths are running.`);
}

// -- chips: one per path, a list for the arrow keys

export function showChips(state, selected, select) {
  const host = $("chips");
  for (const path of state.paths) {
    if (!path) continue;
    const chip = host.children[path.number] ?? host.appendChild(newChip(path.number, select));
    const kind = state.kind(path), isSelected = selected === path.number;
    const name = `chip f-${kind}`;
    if (chip.className !== name) { chip.className = name; chip.title = `path ${path.number}: ${describeFate(state, path)}`; chip.setAttribute("aria-label", chip.title); }
    if (chip.getAttribute("aria-selected") !== String(isSelected)) chip.setAttribute("aria-selected", String(isSelected));
  }
  if (host.children.length && !host.querySelector('[tabindex="0"]')) host.children[0].tabIndex = 0;
}

function newChip(at, select) {
  const chip = element("button", "chip");
  chip.type = "button"; chip.tabIndex = -1;
  chip.setAttribute("role", "option");
  chip.append(element("span", "", String(at)));
  chip.addEventListener("click", () => select(at));
  return chip;
}

export function moveFocus(event) {
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

// -- the text of one path

export function showPath(state, path, text) {
  $("reader").hidden = false;
  setText("reader-title", `Path ${path.number}`);
  const answer = path.answer == null ? "" : `; its answer: ${path.answer}`;
  setText("reader-note", `${describeFate(state, path)}, ${number.format(path.tokens)} tokens${answer}`);
  const fragment = document.createDocumentFragment(), conf = text?.confidence ?? [];
  const level = shadeLevels(conf);
  let last = null;
  (text?.texts ?? []).forEach((piece, at) => {
    const shade = String(conf.length ? level(conf[at]) : 7);
    if (last?.dataset.level === shade) { last.firstChild.data += piece; return; }
    last = element("span", `c${shade}`);
    last.dataset.level = shade;
    last.append(document.createTextNode(piece));
    fragment.append(last);
  });
  $("text").replaceChildren(fragment);
  const scale = $("scale");
  scale.replaceChildren();
  if (!conf.length) { scale.append(text?.texts.length ? "This strategy does not use confidence, so nothing is shaded." : "It has no text yet."); return; }
  scale.append("least confident ");
  for (let level = 0; level < 8; level++) scale.append(element("i", `c${level}`, "\u00a0"));
  scale.append(" most confident, within this path");
}

function shadeLevels(conf) {
  const sorted = conf.filter(value => value !== null).sort((a, b) => a - b);
  const low = sorted[Math.floor(sorted.length * 0.02)] ?? 0, high = sorted[Math.floor(sorted.length * 0.7)] ?? 1;
  return value => (value === null ? 7 : Math.max(0, Math.min(7, Math.floor(8 * (value - low) / (high - low || 1)))));
}

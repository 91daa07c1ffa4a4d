// The panels of one run: status, notes, tiles, votes and chips.

import { $, element, fill, number, setText } from "./dom.js";
import { KIND_LABELS, describeFate } from "./run_state.js";

export function showTiles(state) {
  const summary = state.summary;
  if (!summary) return;
  setText("paths-started", String(summary.started));
  setText("budget", `of ${summary.budget} at most`);
  const plain = summary.full_budget_tokens, saved = plain && state.result ? 1 - summary.tokens / plain : null;
  setText("tokens", number.format(summary.tokens));
  setText("token-buckets", describeBuckets(state.result));
  setText("reread-tokens", describeReread(state.result));
  setText("plain-tokens", plain ? `all ${summary.budget} paths: about ${number.format(Number(plain.toPrecision(2)))}` : "");
  setText("saved", saved === null ? "–" : saved > 0 ? `${Math.round(saved * 100)}%` : "0%");
  setText("saved-note", state.result ? "compared with plain voting on the whole budget" : "known when the run ends");
  showFates(state.counts());
  showMeter(state, summary);
}

const BUCKETS = { init: "warm-up", kept: "kept", pruned: "pruned", discarded: "discarded", failed: "failed", overrun: "overrun", search: "search" };

// What became of the tokens, once the run is over.
export function describeBuckets(result) {
  return Object.entries(BUCKETS).filter(([name]) => result?.tokens?.[name]).map(([name, label]) => `${number.format(result.tokens[name])} ${label}`).join(", ");
}

// Prompt tokens of searches, most of which the server has read before; runs kept by older versions do not say how many it had cached.
export function describeReread(result) {
  const { reread, reread_cached: cached } = result?.tokens ?? {};
  return reread ? `and ${number.format(reread)} prompt tokens read again${cached ? `, ${number.format(cached)} of them cached` : ""}` : "";
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
  const value = summary.measure, { threshold, stops_above: above } = state.stop, measures = threshold !== null;
  setText("measure-name", state.measureName ?? "Stop rule");
  setText("measure", value === null ? (measures ? "–" : "none") : value.toFixed(value > 0.99 && value < 1 ? 4 : 3));
  setText("threshold", !measures ? "" : above ? `stops above ${threshold}` : `stops at ${threshold} or less`);
  const equal = state.equalPosterior;
  setText("equal-posterior", !measures ? "this strategy's stop rule has no measure"
    : equal === null ? "" : `${equal.toFixed(equal > 0.99 && equal < 1 ? 4 : 3)} with every path counted as one vote`);
  $("run").toggleAttribute("data-settled", state.settled);
  const scale = above ? 1 : Math.max(threshold ?? 0, state.most) || 1;
  $("meter").hidden = $("stop-card").hidden = !measures;
  $("meter-fill").style.width = `${Math.min(100, 100 * (value ?? 0) / scale)}%`;
  $("meter-threshold").style.left = `${Math.min(99.4, 100 * (threshold ?? 0) / scale)}%`;
}

const MOST_VOTES = 7;

// `highlight` receives the paths of the answer under the pointer.
export function showVotes(state, list, note, highlight) {
  const summary = state.summary;
  if (!summary) return;
  const votes = summary.votes, total = votes.reduce((sum, [, weight]) => sum + (weight ?? 0), 0) || 1;
  const voters = new Map();
  for (const path of state.paths) if (path?.vote != null) voters.has(path.vote) ? voters.get(path.vote).push(path.number) : voters.set(path.vote, [path.number]);
  const shown = votes.slice(0, MOST_VOTES);
  while (list.children.length > shown.length) list.lastChild.remove();
  shown.forEach(([path, weight], at) => {
    const row = list.children[at] ?? list.appendChild(voteRow(highlight));
    const share = (weight ?? 0) / total, answer = state.answerOf(path) ?? "";
    row.paths = voters.get(path) ?? [];
    if (row.children[0].textContent !== answer) { row.children[0].textContent = answer; row.children[0].title = answer; }
    row.children[1].firstChild.style.width = `${100 * share}%`;
    fill(row.children[2], `${Math.round(100 * share)}% · ${row.paths.length}`);
  });
  const hidden = votes.length - shown.length, silent = state.counts().silent;
  const notes = [];
  if (votes.length) notes.push("share of the weight · paths");
  else notes.push(summary.warmup && summary.counted === 0 ? `votes are counted after ${summary.warmup} warm-up paths` : "no votes yet");
  if (hidden > 0) notes.push(`${hidden} more answers`);
  if (silent) notes.push(`${silent} gave no answer`);
  const level = state.result?.certificate;
  if (level != null) notes.push(level < 1 ? `certified at ${level.toPrecision(2)} as the most frequent answer` : "not certified as the most frequent answer");
  fill(note, notes.join("; "));
}

function voteRow(highlight) {
  const row = element("li"), track = element("div", "track");
  track.append(element("div", "fill"));
  row.append(element("span", "a"), track, element("span", "n"));
  row.tabIndex = 0;
  for (const name of ["mouseenter", "focus"]) row.addEventListener(name, () => highlight(row.paths));
  for (const name of ["mouseleave", "blur"]) row.addEventListener(name, () => highlight([]));
  return row;
}

const ENDINGS = { settled: "The vote is settled", budget: "The budget is spent", max_tokens: "The limit on tokens was reached",
  deadline: "The deadline passed", interrupted: "Stopped", engine: "The upstream was lost", no_answer: "No path gave an answer" };

// The label of the answer, the answer, and a sentence on how the run stands.
export function describeRun(state) {
  const { summary, result, error } = state;
  if (error) return ["Failed", "No answer", error.message ?? ""];
  const label = result ? ["Answer", result.agreement].filter(Boolean).join(": ") : state.answer === null ? "Thinking" : "Leading", answer = state.answer ?? (result ? "none" : "…");
  if (!summary) return [label, answer, "Waiting for the first token."];
  const counts = state.counts();
  const isUndecided = result?.reason === "settled" && result.quantity === "expected_gain" && result.agreement && !result.agreement.includes("settled");
  if (result) return [label, answer, `${isUndecided ? "Stopped, since more paths would hardly help," : ENDINGS[result.reason] ?? "Ended"} after ${summary.counted} paths. ${result.why ?? ""}`];
  if (summary.counted === 0 && summary.warmup) {
    const ended = state.paths.filter(path => path?.warmup && path.fate === "kept").length;
    return [label, answer, `Warm-up: ${ended} of ${summary.warmup} paths have ended. After it paths below a threshold are pruned.`];
  }
  return [label, answer, summary.why || `${counts.running} paths are running.`];
}

export function showStatus(state) {
  const { result, error } = state;
  $("run").dataset.state = error ? "error" : result ? "over" : "running";
  $("run").toggleAttribute("data-unanswered", Boolean(result) && state.answer === null);
  ["answer-label", "answer", "status"].forEach((id, at) => setText(id, describeRun(state)[at]));
  $("answer-label").title = result?.certificate == null ? "" : `The model's most frequent answer, at level ${result.certificate.toPrecision(2)}`;
  showNotes(state, $("notes"));
}

export function showNotes(state, list) {
  const notes = state.notes.map(note => `${note[0].toUpperCase()}${note.slice(1)}${note.endsWith(".") ? "" : "."}`);
  if (notes.join("\n") === [...list.children].map(item => item.textContent).join("\n")) return;
  list.replaceChildren(...notes.map(note => element("li", "", note)));
}

// -- chips: one per path, a list for the arrow keys

export function showChips(state, selected, select, highlight) {
  const host = $("chips");
  let next = host.firstElementChild;  // chips are in the order of the paths, of which some numbers may be missing
  for (const path of state.paths) {
    if (!path) continue;
    const chip = next?.path === path.number ? next : host.insertBefore(newChip(path.number, select, highlight), next);
    next = chip.nextElementSibling;
    const kind = state.kind(path), isSelected = selected === path.number;
    const name = `chip f-${kind}`;
    if (chip.className !== name) { chip.className = name; chip.title = `path ${path.number}: ${describeFate(state, path)}`; chip.setAttribute("aria-label", chip.title); }
    if (chip.getAttribute("aria-selected") !== String(isSelected)) chip.setAttribute("aria-selected", String(isSelected));
  }
  if (host.children.length && !host.querySelector('[tabindex="0"]')) host.children[0].tabIndex = 0;
}

function newChip(at, select, highlight) {
  const chip = element("button", "chip");
  chip.type = "button"; chip.tabIndex = -1; chip.path = at;
  chip.setAttribute("role", "option");
  chip.append(element("span", "", String(at)));
  chip.addEventListener("click", () => select(at));
  for (const name of ["mouseenter", "focus"]) chip.addEventListener(name, () => highlight([at]));
  for (const name of ["mouseleave", "blur"]) chip.addEventListener(name, () => highlight([]));
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

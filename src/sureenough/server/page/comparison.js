// Two runs on the same question, side by side: each with its answer, votes, paths and text, and a sentence that compares them.

import { $, base, element, fill, number } from "./dom.js";
import { describeBuckets, describeReread, describeRun, showNotes, showVotes } from "./panels.js";
import { PathPanel } from "./path_panel.js";
import { finalPart } from "./reader.js";
import { fetchPath, follow } from "./run_feed.js";
import { RunState } from "./run_state.js";

export class Comparison {
  // `onChange` is called when a line has come; `showError` receives a title and a message.
  constructor(ids, colour, onChange, showError) {
    this.ids = ids;
    this.onChange = onChange;
    this.agree = undefined;  // not known yet; null: one has no answer
    const longest = () => Math.max(...this.cards.map(card => card.state.longest));
    this.cards = ids.map(id => new RunCard(id, colour, longest));
    $("pair").replaceChildren(...this.cards.map(card => card.node));
    this.subscription = new AbortController();
    for (const card of this.cards) {
      follow(card.id, this.subscription.signal, {
        restart: () => { Object.assign(card.state, new RunState()); $("error").hidden = true; },
        apply: line => { card.state.apply(line); if (card.state.isOver) this.#finish(card); onChange(); },
        isOver: () => card.state.isOver,
        showMissing: error => showError("There is nothing to show.", error?.message ?? ""),
        showError,
      });
    }
  }

  get running() { return this.cards.filter(card => !card.state.isOver).map(card => card.id); }

  async #finish(card) {
    await card.loadWinner();
    if (this.cards.every(one => one.state.result) && this.agree === undefined) {
      const [id, other] = this.ids.map(encodeURIComponent);
      const response = await fetch(`${base}/api/runs/${id}/agrees-with/${other}`);
      this.agree = response.ok ? (await response.json()).agree : undefined;
    }
    this.onChange();
  }

  redraw() {
    for (const card of this.cards) card.redraw();
    fill($("comparison-question"), this.cards[0].state.run?.question ?? "");
    const [first, second] = this.cards.map(card => card.state);
    fill($("verdict"), verdict(first, second, this.agree));
    $("comparison").dataset.state = this.running.length ? "running" : "over";
  }

  close() { this.subscription.abort(); for (const card of this.cards) card.panel.destroy(); }
}

class RunCard {
  constructor(id, colour, longest) {
    this.id = id;
    this.state = new RunState();
    this.parts = {};
    const part = (name, tag, className = "") => (this.parts[name] = element(tag, className));
    this.node = element("article", "card run-card");
    const banner = element("div", "card-banner"), link = part("link", "a"), plot = element("div", "plot");
    link.href = `${base}/runs/${encodeURIComponent(id)}`;
    link.title = "Show this run alone, with its stop rule and every path";
    banner.append(part("label", "span", "answer-label"), part("answer", "strong", "answer"), part("status", "p", "dim"));
    const heading = element("h2");
    heading.append(link);
    this.node.append(heading, banner, part("notes", "ul", "notes"), part("cost", "p", "cost"), part("buckets", "p", "dim"), part("reread", "p", "dim"),
      element("h3", "", "Votes"), part("votes", "ol", "votes"), part("votesNote", "p", "dim"),
      part("chartName", "h3"), plot, part("winnerName", "h3"), part("winner", "div", "path-text path-end"));
    this.panel = new PathPanel(plot, this.state, colour, () => { location.href = link.href; }, longest);
  }

  redraw() {
    const { state, parts } = this, [label, answer, status] = describeRun(state), summary = state.summary;
    this.node.dataset.state = state.error ? "error" : state.result ? "over" : "running";
    this.node.toggleAttribute("data-unanswered", Boolean(state.result) && state.answer === null);
    fill(parts.link, state.run?.strategy ?? "…");
    fill(parts.label, label); fill(parts.answer, answer); fill(parts.status, status);
    showNotes(state, parts.notes);
    fill(parts.cost, summary ? `${number.format(summary.tokens)} tokens, ${summary.started} of ${summary.budget} paths` : "");
    fill(parts.buckets, describeBuckets(state.result)); fill(parts.reread, describeReread(state.result));
    showVotes(state, parts.votes, parts.votesNote, numbers => this.panel.highlight(numbers));
    fill(parts.chartName, state.showsConfidence ? "Confidence of every path" : "Tokens of every path");
    this.panel.redraw();
  }

  // The text that the answer was read from, once the run is over.
  async loadWinner() {
    const path = this.state.winner, text = path && await fetchPath(this.id, path.number);
    if (!text) return;
    fill(this.parts.winnerName, `${this.state.answer === null ? "No answer was found in" : "The answer is from"} path ${path.number}`);
    fill(this.parts.winner, finalPart(text.texts));
  }
}

const strategyOf = state => state.run?.strategy ?? "…";

// Which of the two used fewer tokens, and whether they agree.
export function verdict(first, second, agree) {
  const failed = [first, second].find(state => state.error);
  if (failed) return `${strategyOf(failed)} failed, so there is nothing to compare.`;
  if (!first.summary || !second.summary) return "Both runs are starting.";
  const [less, more] = first.summary.tokens <= second.summary.tokens ? [first, second] : [second, first];
  const [few, many] = [less.summary.tokens, more.summary.tokens];
  const isOver = Boolean(first.result && second.result);
  const used = few === many ? `Both used ${number.format(few)} tokens.`
    : `${strategyOf(less)} used ${number.format(few)} tokens, ${Math.round(100 * (1 - few / many))}% fewer than ${strategyOf(more)} with ${number.format(many)}.`;
  if (!isOver) return `So far: ${used}`;
  return `${used} ${agreement(first, second, agree)}`.trim();
}

function agreement(first, second, agree) {
  const silent = [first, second].filter(state => state.answer === null);
  if (silent.length === 2) return "Neither gave an answer.";
  if (silent.length) return `${strategyOf(silent[0])} gave no answer.`;
  if (agree === undefined) return "";
  if (!agree) return `They disagree: ${first.answer} and ${second.answer}.`;
  return first.answer === second.answer ? `They agree: both answer ${first.answer}.` : `They agree: ${first.answer} and ${second.answer} mean the same.`;
}

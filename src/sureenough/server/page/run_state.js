// What the page knows of a run: the lines of its log in, numbers out. Nothing here touches the document.

const QUANTITIES = { posterior: "Posterior of the leader", weighted_posterior: "Posterior by the paper's weights",
  expected_gain: "Expected gain of more paths", leader_share: "Leader's share of the votes",
  certificate: "Certificate of the leader" };
const EMPTY = { votes: [], started: 0, counted: 0, budget: 0, warmup: 0, window: 1, stride: 1, tokens: 0, full_budget_tokens: null,
  measure: null, posterior: null, why: "", gate: { drop: null }, reads_confidence: true, stop: { quantity: null, threshold: null, stops_above: true } };

const FEW_TOKENS = 16;  // a path of fewer may have none with a confidence

export class RunState {
  constructor() {
    this.run = null;
    this.paths = [];
    this.steps = [];  // paths counted, tokens so far, the stop rule's measure
    this.least = Infinity; this.most = 0;  // of the measures
    this.summary = null;
    this.result = null;
    this.error = null;
    this.longest = 1;
    this.low = Infinity;
    this.high = -Infinity;
    this.unread = new Set();  // paths of which only the number of tokens is known
  }

  apply(line) {
    if (line.run) this.run = line.run;
    for (const path of line.paths ?? []) this.#applyPath(path);
    for (const step of line.steps ?? []) this.#applyStep(step);
    if (line.summary) this.summary = { ...EMPTY, ...this.summary, ...line.summary };
    if (line.result) this.result = line.result;
    if (line.error) this.error = line.error;
  }

  #applyStep(step) {
    this.steps.push(step);
    if (step[2] === null) return;
    this.least = Math.min(this.least, step[2]); this.most = Math.max(this.most, step[2]);
  }

  #applyPath({ points, redrawn, branches, ...fields }) {
    const path = (this.paths[fields.path] ??= { number: fields.path, tokens: 0, fate: null, tier: null, answer: null, counted: false, vote: null, points: [],
      branches: [], branchChanges: 0 });
    Object.assign(path, fields);
    for (const branch of branches ?? []) { path.branches[branch.branch] = { ...path.branches[branch.branch], ...branch }; path.branchChanges += 1; }
    if (redrawn) path.points = [];  // the window was chosen now
    for (const y of points ?? []) { path.points.push(y); this.#extendRange(y); }
    if (fields.confidence !== undefined) this.#extendRange(fields.confidence);
    if (fields.tokens > this.longest) this.longest = fields.tokens;
    const unread = path.tokens > FEW_TOKENS && !path.points.length && path.confidence === undefined && path.fate !== "failed";
    if (unread) this.unread.add(path.number); else this.unread.delete(path.number);
  }

  #extendRange(y) {
    if (y < this.low) this.low = y;
    if (y > this.high) this.high = y;
  }

  // An engine that watches its own paths sends token counts while they run: then paths are drawn as bars.
  get showsConfidence() { return this.summary?.reads_confidence !== false && !this.unread.size; }

  // The axis of confidence, which includes the threshold.
  get range() {
    if (this.low > this.high) return [0, 1];
    const drop = this.summary?.gate?.drop ?? this.low;
    const low = Math.min(this.low, drop), high = Math.max(this.high, drop), room = (high - low || 1) * 0.03;
    return [Math.floor((low - room) * 2) / 2, Math.ceil((high + room) * 2) / 2];
  }

  get isOver() { return Boolean(this.result || this.error); }

  // What a reader of the answer should know: before the run, and after it.
  get notes() { return [...new Set([...(this.run?.notes ?? []), ...(this.result?.notes ?? [])])].filter(Boolean); }

  // The path whose text is shown with the result: the one that the answer was read from; without an answer, the first that ended.
  get winner() {
    const answer = this.result?.answer ?? null, ended = this.paths.filter(path => path?.fate === "kept");
    return ended.find(path => path.answer === answer && path.counted) ?? ended.find(path => path.answer === answer)
      ?? (answer === null ? ended[0] : null) ?? null;
  }

  // The lowest-numbered path with the leading answer: votes name answers by such paths.
  get leader() { return this.summary?.votes[0]?.[0] ?? null; }

  get answer() { return this.result ? (this.result.answer ?? null) : this.answerOf(this.leader); }

  answerOf(number) { return this.paths[number]?.answer ?? null; }

  kind(path) {
    if (!path.fate) return "running";
    if (path.fate !== "kept") return path.ended_uncounted ? "uncounted" : path.fate;
    if (!path.counted) return "waiting";
    if (path.vote === null) return "silent";
    return path.vote === this.leader ? "agrees" : "differs";
  }

  counts() {
    const counts = { running: 0, waiting: 0, agrees: 0, differs: 0, silent: 0, uncounted: 0, pruned: 0, discarded: 0, failed: 0 };
    for (const path of this.paths) if (path) counts[this.kind(path)] += 1;
    return counts;
  }

  // The stop rule measures a posterior or a share, which must rise, or an expected gain, which must fall.
  get stop() { return this.summary?.stop ?? EMPTY.stop; }

  get measureName() { return this.stop.threshold === null ? null : (QUANTITIES[this.stop.quantity] ?? "Stop rule"); }

  // A posterior by weights is not a probability to trust: the one with every path as one vote is shown beside it.
  get equalPosterior() { return this.stop.quantity === "weighted_posterior" ? (this.summary?.posterior ?? null) : null; }

  get settled() {
    return this.result?.reason === "settled";
  }
}

export const KIND_LABELS = {
  running: "running",
  waiting: "ended, not counted yet",
  agrees: "voted for the leader",
  differs: "voted for another answer",
  silent: "gave no answer",
  uncounted: "ended, not counted",
  pruned: "pruned",
  discarded: "discarded",
  failed: "failed",
};

export function describeFate(state, path) {
  const kind = state.kind(path);
  if (kind !== "pruned") return KIND_LABELS[kind];
  return path.tier === "risk" ? "pruned: its confidence became unstable" : "pruned: its confidence fell below the threshold";
}

// What the page knows of a run: events in, numbers out. Nothing here touches the document.

const MEASURES = { posterior: "Posterior of the leader", expected_gain: "Expected gain of more paths", leader_share: "Leader's share of the votes" };

export class RunState {
  constructor() {
    this.run = null;
    this.paths = [];
    this.steps = [];  // paths counted, tokens so far, the stop rule's measure
    this.summary = null;
    this.result = null;
    this.error = null;
    this.longest = 1;
    this.low = Infinity;
    this.high = -Infinity;
  }

  apply(update) {
    if (update.run) this.run = update.run;
    for (const path of update.paths ?? []) this.#applyPath(path);
    if (update.steps) this.steps.push(...update.steps);
    if (update.standing) this.summary = update.standing;
    if (update.over) this.result = update.over;
    if (update.error) this.error = update.error;
  }

  #applyPath({ points, ...fields }) {
    const path = (this.paths[fields.path] ??= { number: fields.path, points: [] });
    Object.assign(path, fields);
    for (const y of points ?? []) { path.points.push(y); this.#extendRange(y); }
    if (fields.now !== undefined) this.#extendRange(fields.now);
    if (fields.tokens > this.longest) this.longest = fields.tokens;
  }

  #extendRange(y) {
    if (y < this.low) this.low = y;
    if (y > this.high) this.high = y;
  }

  get leader() {
    return this.result ? this.result.answer : (this.summary?.votes[0]?.[0] ?? null);
  }

  kind(path) {
    if (!path.fate) return "running";
    if (path.fate === "spared") return "discarded";  // runs kept by version 0.1
    if (path.fate !== "kept") return path.fate;
    if (!path.counted) return "waiting";
    if (path.vote === null) return "silent";
    return path.vote === this.leader ? "agrees" : "differs";
  }

  counts() {
    const counts = { running: 0, waiting: 0, agrees: 0, differs: 0, silent: 0, pruned: 0, discarded: 0, failed: 0 };
    for (const path of this.paths) if (path) counts[this.kind(path)] += 1;
    return counts;
  }

  // The stop rule's measure: a posterior or a share, which must rise, or an expected gain, which must fall.
  get measure() {
    const measured = this.result?.expected_gain ?? this.result?.posterior ?? this.result?.leader_share;
    if (measured !== undefined && measured !== null) return measured;
    for (let at = this.steps.length - 1; at >= 0; at--) if (this.steps[at][2] !== null) return this.steps[at][2];
    return null;
  }

  get rises() { return this.summary?.rises !== false; }

  get measureName() {
    if (!this.summary || this.summary.bar === null) return null;
    return MEASURES[this.run?.measure] ?? (this.rises ? MEASURES.posterior : MEASURES.expected_gain);
  }

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
  pruned: "pruned",
  discarded: "discarded",
  failed: "failed",
};

export function describeFate(state, path) {
  const kind = state.kind(path);
  if (kind !== "pruned") return KIND_LABELS[kind];
  return path.tier === "risk" ? "pruned: its confidence became unstable" : "pruned: its confidence fell below the threshold";
}

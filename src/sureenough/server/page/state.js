// What is known of a run: news in, numbers out. Nothing here touches the page.

export class State {
  constructor() {
    this.run = null;
    this.paths = [];
    this.steps = [];
    this.standing = null;
    this.over = null;
    this.error = null;
    this.longest = 1;
    this.low = Infinity;
    this.high = -Infinity;
  }

  take(news) {
    if (news.run) this.run = news.run;
    for (const told of news.paths ?? []) this.#path(told);
    if (news.steps) this.steps.push(...news.steps);
    if (news.standing) this.standing = news.standing;
    if (news.over) this.over = news.over;
    if (news.error) this.error = news.error;
  }

  #path(told) {
    const path = (this.paths[told.path] ??= { number: told.path, points: [] });
    const { points, ...rest } = told;
    Object.assign(path, rest);
    for (const y of points ?? []) this.#point(path, y);
    if (told.now !== undefined) this.#range(told.now);
    if (told.tokens > this.longest) this.longest = told.tokens;
  }

  #point(path, y) {
    path.points.push(y);
    this.#range(y);
  }

  #range(y) {
    if (y < this.low) this.low = y;
    if (y > this.high) this.high = y;
  }

  get leader() {
    return this.over ? this.over.answer : (this.standing?.votes[0]?.[0] ?? null);
  }

  kind(path) {
    if (!path.fate) return "running";
    if (path.fate !== "kept") return path.fate;
    if (!path.counted) return "waiting";
    if (path.vote === null) return "silent";
    return path.vote === this.leader ? "agrees" : "differs";
  }

  counts() {
    const found = { running: 0, waiting: 0, agrees: 0, differs: 0, silent: 0, pruned: 0, spared: 0, failed: 0 };
    for (const path of this.paths) if (path) found[this.kind(path)] += 1;
    return found;
  }

  get measure() {
    if (this.over) return this.over.posterior;
    for (let at = this.steps.length - 1; at >= 0; at--) if (this.steps[at][2] !== null) return this.steps[at][2];
    return null;
  }

  get settled() {
    return this.over?.reason === "settled";
  }
}

export const WORDS = {
  running: "growing",
  waiting: "ended, not counted yet",
  agrees: "voted for the leader",
  differs: "voted otherwise",
  silent: "gave no answer",
  pruned: "pruned",
  spared: "spared",
  failed: "lost",
};

export function fate(state, path) {
  const kind = state.kind(path);
  if (kind !== "pruned") return WORDS[kind];
  return path.tier === "risk" ? "pruned: its confidence became unsteady" : "pruned: its confidence fell below the line";
}

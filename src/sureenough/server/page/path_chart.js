// One line per path: confidence over tokens, on canvas. Paths that have ended are drawn once, on a layer that is kept
// until the scales or the leader change; only those that still change are drawn with every update.

const ORDER = ["discarded", "failed", "pruned", "silent", "differs", "agrees", "waiting", "running"];
const CHANGING = new Set(["running", "waiting"]);
const FADED = new Set(["pruned", "discarded", "failed"]);

// The end of an axis that moves rarely: the next step of a scale whose steps grow by a quarter.
function axisEnd(longest) {
  let end = 16;
  while (end < longest * 1.02) end = Math.ceil(end * 1.25 / 4) * 4;
  return end;
}

export class PathChart {
  constructor(host, state, colour, select) {
    this.host = host;
    this.state = state;
    this.colour = colour;
    this.selected = null;
    this.hovered = null;
    const axis = { stroke: () => colour("--dim"), grid: { stroke: () => colour("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
    this.plot = new uPlot({
      width: host.clientWidth, height: host.clientHeight, legend: { show: false }, padding: [10, 12, 0, 0],
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: { x: { time: false, range: () => [0, axisEnd(this.state.longest)] }, y: { range: () => this.#range() } },
      axes: [{ ...axis, size: 26, gap: 2, label: "tokens", labelSize: 16, labelGap: 0, labelFont: "12px system-ui" }, { ...axis, size: 46 }],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { draw: [() => this.#draw()], ready: [u => this.#addListeners(u, select)] },
    }, [[0, 1], [0, 1]], host);
  }

  resize() { this.plot.setSize({ width: this.host.clientWidth, height: this.host.clientHeight }); }

  redraw() { this.plot.setData([[0, this.state.longest], [0, 1]]); }

  get hasConfidence() { return this.state.summary?.reads_confidence !== false && this.state.low <= this.state.high; }

  #range() {
    if (!this.hasConfidence) return [0, Math.max(1, this.state.paths.length) + 1];
    const drop = this.state.summary?.gate?.drop ?? this.state.low;
    const low = Math.min(this.state.low, drop), high = Math.max(this.state.high, drop), room = (high - low || 1) * 0.03;
    return [Math.floor((low - room) * 2) / 2, Math.ceil((high + room) * 2) / 2];
  }

  // Without confidence a path is a horizontal line at its number.
  #valueAt(path, at) { return this.hasConfidence ? path.points[at] : path.number + 1; }

  #draw() {
    const u = this.plot, ctx = u.ctx, box = u.bbox;
    const [x0, x1] = [u.scales.x.min, u.scales.x.max], [y0, y1] = [u.scales.y.min, u.scales.y.max];
    const sx = box.width / (x1 - x0), sy = box.height / (y1 - y0);
    const X = x => box.left + (x - x0) * sx, Y = y => box.top + (y1 - y) * sy;
    const ratio = devicePixelRatio || 1;
    const groups = Object.fromEntries(ORDER.map(kind => [kind, []]));
    for (const path of this.state.paths) if (path) groups[this.state.kind(path)].push(path);
    const key = [x0, x1, y0, y1, box.left, box.top, box.width, box.height, this.state.leader, this.colour("--ink"), this.hasConfidence].join();
    ctx.save();
    ctx.beginPath(); ctx.rect(box.left, box.top, box.width, box.height); ctx.clip();
    this.#drawUnwatched(ctx, box, X, ratio);
    ctx.drawImage(this.#endedLayer(key, ctx.canvas, groups, X, Y, ratio), 0, 0);
    for (const kind of CHANGING) this.#drawGroup(ctx, kind, groups[kind], X, Y, ratio);
    this.#drawThreshold(ctx, box, Y, ratio);
    for (const path of [this.hovered, this.selected]) if (path !== null) this.#drawHighlight(ctx, this.state.paths[path], X, Y, ratio);
    ctx.restore();
  }

  // The layer of paths that have ended, with those added that ended since the last frame.
  #endedLayer(key, canvas, groups, X, Y, ratio) {
    if (key !== this.key) {
      this.key = key;
      this.drawn = new Set();
      this.layer = document.createElement("canvas");
      this.layer.width = canvas.width; this.layer.height = canvas.height;
    }
    const ctx = this.layer.getContext("2d");
    for (const kind of ORDER) {
      if (CHANGING.has(kind)) continue;
      const added = groups[kind].filter(path => !this.drawn.has(path.number));
      for (const path of added) this.drawn.add(path.number);
      this.#drawGroup(ctx, kind, added, X, Y, ratio);
    }
    return this.layer;
  }

  #drawGroup(ctx, kind, paths, X, Y, ratio) {
    if (!paths.length) return;
    ctx.lineJoin = "round";
    ctx.strokeStyle = this.colour(FADED.has(kind) ? "--faded" : `--${kind}`);
    ctx.globalAlpha = FADED.has(kind) ? 0.75 : this.state.paths.length > 120 ? 0.5 : 0.85;
    ctx.lineWidth = (kind === "running" ? 1.8 : 1.3) * ratio;
    for (const path of paths) { ctx.beginPath(); this.#trace(ctx, path, X, Y); ctx.stroke(); }  // one by one: a single large path is slower
    ctx.globalAlpha = 1;
    this.#drawEnds(ctx, kind, paths, X, Y, ratio);
  }

  #trace(ctx, path, X, Y) {
    const stride = this.state.summary?.stride ?? 1, points = path.points;
    if (!this.hasConfidence) {
      ctx.moveTo(X(0), Y(path.number + 1)); ctx.lineTo(X(path.tokens), Y(path.number + 1));
      return;
    }
    for (let at = 0; at < points.length; at++) {
      const x = X((at + 1) * stride), y = Y(points[at]);
      if (at) ctx.lineTo(x, y); else ctx.moveTo(x, y);
    }
    if (path.confidence !== undefined && path.tokens > points.length * stride) {
      if (points.length) ctx.lineTo(X(path.tokens), Y(path.confidence)); else ctx.moveTo(X(path.tokens), Y(path.confidence));
    }
  }

  #endValue(path) { return this.hasConfidence ? (path.confidence ?? path.points.at(-1)) : path.number + 1; }

  // Where a path ended, and how: a dot for a vote, a cross for a path that was pruned.
  #drawEnds(ctx, kind, paths, X, Y, ratio) {
    if (kind === "discarded") return;
    ctx.fillStyle = ctx.strokeStyle = this.colour(`--${kind}`);
    ctx.lineWidth = 2 * ratio;
    for (const path of paths) {
      const y = this.#endValue(path);
      if (y === undefined) continue;
      const px = X(path.tokens), py = Y(y), r = (kind === "running" ? 2.6 : 3) * ratio;
      ctx.beginPath();
      if (kind === "pruned" || kind === "failed") {
        const d = 3.4 * ratio;
        ctx.moveTo(px - d, py - d); ctx.lineTo(px + d, py + d); ctx.moveTo(px + d, py - d); ctx.lineTo(px - d, py + d);
        ctx.stroke();
      } else { ctx.arc(px, py, r, 0, 7); ctx.fill(); }
    }
  }

  #drawThreshold(ctx, box, Y, ratio) {
    const drop = this.state.summary?.gate?.drop;
    if (drop === null || drop === undefined || !this.hasConfidence) return;
    const y = Y(drop);
    ctx.strokeStyle = ctx.fillStyle = this.colour("--threshold");
    ctx.lineWidth = 1.6 * ratio;
    ctx.setLineDash([7 * ratio, 5 * ratio]);
    ctx.beginPath(); ctx.moveTo(box.left, y); ctx.lineTo(box.left + box.width, y); ctx.stroke();
    ctx.setLineDash([]);
    ctx.font = `600 ${12 * ratio}px system-ui`;
    ctx.textAlign = "right";
    const text = `pruned below ${drop.toFixed(2)}`, width = ctx.measureText(text).width, right = box.left + box.width - 6 * ratio;
    ctx.fillStyle = this.colour("--card");
    ctx.globalAlpha = 0.85; ctx.fillRect(right - width - 4 * ratio, y + 3 * ratio, width + 8 * ratio, 17 * ratio); ctx.globalAlpha = 1;
    ctx.fillStyle = this.colour("--threshold");
    ctx.fillText(text, right, y + 15 * ratio);
  }

  // No path is pruned before its first window is full, however low its confidence.
  #drawUnwatched(ctx, box, X, ratio) {
    const summary = this.state.summary;
    if (!summary || summary.gate.drop === null || !this.hasConfidence) return;
    const edge = X(summary.window);
    ctx.fillStyle = this.colour("--soft");
    ctx.fillRect(box.left, box.top, edge - box.left, box.height);
    ctx.fillStyle = this.colour("--dim"); ctx.font = `${12 * ratio}px system-ui`; ctx.textAlign = "left";
    if (edge - box.left > 90 * ratio) ctx.fillText("no pruning yet", box.left + 6 * ratio, box.top + 16 * ratio);
    else ctx.fillText("pruning starts here", edge + 6 * ratio, box.top + 16 * ratio);
  }

  #drawHighlight(ctx, path, X, Y, ratio) {
    if (!path) return;
    ctx.beginPath(); this.#trace(ctx, path, X, Y);
    ctx.lineWidth = 3.2 * ratio; ctx.strokeStyle = this.colour("--ink"); ctx.stroke();
    const y = this.#endValue(path);
    if (y === undefined) return;
    ctx.fillStyle = this.colour("--ink"); ctx.font = `600 ${12 * ratio}px system-ui`;
    const right = X(path.tokens) > this.plot.bbox.left + this.plot.bbox.width * 0.85;
    ctx.textAlign = right ? "right" : "left";
    ctx.fillText(`path ${path.number}`, X(path.tokens) + (right ? -8 : 8) * ratio, Y(y) - 7 * ratio);
  }

  #addListeners(u, select) {
    u.over.addEventListener("mousemove", event => this.#hover(u, event));
    u.over.addEventListener("mouseleave", () => { this.hovered = null; u.redraw(false, false); });
    u.over.addEventListener("click", () => { if (this.hovered !== null) select(this.hovered); });
  }

  #hover(u, event) {
    const box = u.over.getBoundingClientRect();
    const x = u.posToVal(event.clientX - box.left, "x"), y = event.clientY - box.top;
    const stride = this.state.summary?.stride ?? 1;
    let best = null, least = 22;
    for (const path of this.state.paths) {
      if (!path || x > path.tokens + this.state.longest * 0.02) continue;
      const at = Math.min(path.points.length - 1, Math.max(0, Math.round(x / stride) - 1));
      const value = this.#valueAt(path, at) ?? path.confidence;
      if (value === undefined) continue;
      const away = Math.abs(u.valToPos(value, "y") - y);
      if (away < least) { least = away; best = path.number; }
    }
    if (best !== this.hovered) { this.hovered = best; u.redraw(false, false); }
  }
}

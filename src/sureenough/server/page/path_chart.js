// All paths in one chart, on canvas: a line of confidence over tokens for each, or a bar of tokens if confidence is not known.
// Paths that have ended are drawn once, on a layer that is kept until the scales or the leader change.

import { CHANGING, ORDER, axisEnd, drawEnd, isFaded, lineColour, traceLine } from "./sketch.js";

const NEAR = 22;  // pixels between the pointer and a line that it may mean
const MOST_LABELS = 2;
const WIDEST_BAR = 16;

export class PathChart {
  constructor(host, state, colour, select, { longest, highlight }) {
    Object.assign(this, { host, state, colour, longest });
    this.lit = new Set();
    const axis = { stroke: () => colour("--dim"), grid: { stroke: () => colour("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
    const values = (u, splits) => splits.map(value => (state.showsConfidence ? String(+value.toFixed(2)) : Number.isInteger(value) && value <= 0 ? String(-value) : ""));
    this.plot = new uPlot({
      width: host.clientWidth, height: host.clientHeight, legend: { show: false }, padding: [10, 12, 0, 0],
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false } },
      scales: { x: { time: false, range: () => [0, axisEnd(longest())] }, y: { range: () => this.#range() } },
      axes: [{ ...axis, size: 26, gap: 2, label: "tokens", labelSize: 16, labelGap: 0, labelFont: "12px system-ui" }, { ...axis, size: 46, values }],
      series: [{}, { paths: () => null, points: { show: false } }],
      hooks: { draw: [() => this.#draw()], ready: [u => this.#addListeners(u, select, highlight)] },
    }, [[0, 1], [0, 1]], host);
  }

  destroy() { this.plot.destroy(); }

  resize() { this.plot.setSize({ width: this.host.clientWidth, height: this.host.clientHeight }); }

  redraw() { this.plot.setData([[0, this.longest()], [0, 1]]); }

  // Bars have the first path on top.
  #range() { return this.state.showsConfidence ? this.state.range : [0.5 - Math.max(1, this.state.paths.length), 0.5]; }

  #draw() {
    const u = this.plot, ctx = u.ctx, box = u.bbox, ratio = devicePixelRatio || 1;
    const [x0, x1] = [u.scales.x.min, u.scales.x.max], [y0, y1] = [u.scales.y.min, u.scales.y.max];
    const sx = box.width / (x1 - x0), sy = box.height / (y1 - y0);
    this.scale = { X: x => box.left + (x - x0) * sx, Y: y => box.top + (y1 - y) * sy, ratio, row: sy };
    const groups = Object.fromEntries(ORDER.map(kind => [kind, []]));
    for (const path of this.state.paths) if (path) groups[this.state.kind(path)].push(path);
    const key = [x0, x1, y0, y1, box.left, box.top, box.width, box.height, this.state.leader, this.colour("--ink"), this.#opacity].join();
    ctx.save();
    ctx.beginPath(); ctx.rect(box.left, box.top, box.width, box.height); ctx.clip();
    this.#drawUnwatched(ctx, box);
    const strength = this.lit.size ? 0.22 : 1;
    ctx.globalAlpha = strength;
    ctx.drawImage(this.#endedLayer(key, ctx.canvas, groups), 0, 0);
    for (const kind of CHANGING) this.#drawGroup(ctx, kind, groups[kind], strength);
    ctx.globalAlpha = 1;
    this.#drawThreshold(ctx, box);
    for (const number of this.lit) this.#drawHighlight(ctx, this.state.paths[number], this.lit.size <= MOST_LABELS);
    ctx.restore();
  }

  // The more lines, the fainter each: where many cross, the common course stands out.
  get #opacity() { return this.state.paths.length > 64 ? 0.45 : this.state.paths.length > 16 ? 0.65 : 0.85; }

  // The layer of paths that have ended, with those added that ended since the last frame.
  #endedLayer(key, canvas, groups) {
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
      this.#drawGroup(ctx, kind, added, 1);
    }
    return this.layer;
  }

  #drawGroup(ctx, kind, paths, strength) {
    ctx.lineJoin = "round";
    for (const path of paths) {  // one by one: a single large path is slower
      ctx.globalAlpha = strength * (isFaded(kind) ? 0.75 : this.state.showsConfidence ? this.#opacity : 0.9);
      ctx.strokeStyle = this.colour(lineColour(kind));
      this.#stroke(ctx, path, kind === "running" ? 1.8 : 1.3);
      ctx.globalAlpha = strength;
      this.#drawEnd(ctx, kind, path);
    }
  }

  #stroke(ctx, path, width) {
    const { X, Y, ratio, row } = this.scale;
    ctx.beginPath();
    if (this.state.showsConfidence) {
      ctx.lineWidth = width * ratio;
      traceLine(ctx, path, this.state.summary?.stride ?? 1, X, Y);
    } else {
      ctx.lineWidth = Math.max(1, Math.min(WIDEST_BAR * ratio, row * 0.7));
      const y = Y(-path.number);
      ctx.moveTo(X(0), y); ctx.lineTo(X(path.tokens), y);
    }
    ctx.stroke();
  }

  #endValue(path) { return this.state.showsConfidence ? (path.confidence ?? path.points.at(-1)) : -path.number; }

  #drawEnd(ctx, kind, path) {
    const y = this.#endValue(path), { X, Y, ratio, row } = this.scale;
    if (kind === "discarded" || y === undefined || (!this.state.showsConfidence && (row < 5 * ratio || !isFaded(kind)))) return;
    ctx.fillStyle = ctx.strokeStyle = this.colour(`--${kind}`);
    ctx.lineWidth = 2 * ratio;
    drawEnd(ctx, kind, X(path.tokens), Y(y), (kind === "running" ? 3 : 3.4) * ratio);
  }

  #drawThreshold(ctx, box) {
    const drop = this.state.summary?.gate?.drop, { Y, ratio } = this.scale;
    if (drop === null || drop === undefined || !this.state.showsConfidence) return;
    const y = Y(drop);
    ctx.strokeStyle = this.colour("--threshold");
    ctx.lineWidth = 1.6 * ratio;
    ctx.setLineDash([7 * ratio, 5 * ratio]);
    ctx.beginPath(); ctx.moveTo(box.left, y); ctx.lineTo(box.left + box.width, y); ctx.stroke();
    ctx.setLineDash([]);
    ctx.font = `600 ${12 * ratio}px system-ui`;
    ctx.textAlign = "right";
    const text = `pruned below ${drop.toFixed(2)}`, width = ctx.measureText(text).width, right = box.left + box.width - 6 * ratio;
    const below = y + 22 * ratio < box.top + box.height, top = below ? y + 3 * ratio : y - 20 * ratio;
    ctx.fillStyle = this.colour("--card");
    ctx.globalAlpha = 0.85; ctx.fillRect(right - width - 4 * ratio, top, width + 8 * ratio, 17 * ratio); ctx.globalAlpha = 1;
    ctx.fillStyle = this.colour("--threshold");
    ctx.fillText(text, right, top + 12 * ratio);
  }

  // No path is pruned before its first window is full, however low its confidence.
  #drawUnwatched(ctx, box) {
    const summary = this.state.summary, { X, ratio } = this.scale;
    if (!summary || summary.gate.drop === null || !this.state.showsConfidence) return;
    const edge = X(summary.window);
    ctx.fillStyle = this.colour("--soft");
    ctx.fillRect(box.left, box.top, edge - box.left, box.height);
    ctx.fillStyle = this.colour("--dim"); ctx.font = `${12 * ratio}px system-ui`; ctx.textAlign = "left";
    if (edge - box.left > 90 * ratio) ctx.fillText("no pruning yet", box.left + 6 * ratio, box.top + 16 * ratio);
    else ctx.fillText("pruning starts here", edge + 6 * ratio, box.top + 16 * ratio);
  }

  #drawHighlight(ctx, path, labelled) {
    if (!path) return;
    const kind = this.state.kind(path), { X, Y, ratio } = this.scale;
    ctx.strokeStyle = this.colour(`--${kind}`);
    this.#stroke(ctx, path, 2.8);
    this.#drawEnd(ctx, kind, path);
    const y = this.#endValue(path);
    if (y === undefined || !labelled) return;
    ctx.fillStyle = this.colour("--ink"); ctx.font = `600 ${12 * ratio}px system-ui`;
    const right = X(path.tokens) > this.plot.bbox.left + this.plot.bbox.width * 0.85;
    ctx.textAlign = right ? "right" : "left";
    ctx.fillText(`path ${path.number}`, X(path.tokens) + (right ? -8 : 8) * ratio, Math.max(Y(y) - 7 * ratio, this.plot.bbox.top + 12 * ratio));
  }

  #addListeners(u, select, highlight) {
    u.over.addEventListener("mousemove", event => { const path = this.#pathAt(u, event); highlight(path === null ? [] : [path]); });
    u.over.addEventListener("mouseleave", () => highlight([]));
    u.over.addEventListener("click", event => { const path = this.#pathAt(u, event); if (path !== null) select(path); });
  }

  #pathAt(u, event) {
    const box = u.over.getBoundingClientRect();
    const x = u.posToVal(event.clientX - box.left, "x"), y = event.clientY - box.top, stride = this.state.summary?.stride ?? 1;
    let best = null, least = NEAR;
    for (const path of this.state.paths) {
      if (!path || x > path.tokens + this.state.longest * 0.02) continue;
      const at = Math.min(path.points.length - 1, Math.max(0, Math.round(x / stride) - 1));
      const value = this.state.showsConfidence ? (path.points[at] ?? path.confidence) : -path.number;
      if (value === undefined) continue;
      const away = Math.abs(u.valToPos(value, "y") - y);
      if (away < least) { least = away; best = path.number; }
    }
    return best;
  }
}

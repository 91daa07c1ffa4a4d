// One small box per path, all on the same scales: readable where the lines of one chart would cover each other.

import { axisEnd, drawEnd, isFaded, lineColour, traceLine } from "./sketch.js";
import { describeFate } from "./run_state.js";

const STEP = 16;  // boxes are laid out anew after so many more paths
const ASPECT = 1.5;
const PADDING = 3;

export class SmallMultiples {
  constructor(host, state, colour, select, { longest, highlight }) {
    Object.assign(this, { host, state, colour, longest });
    this.lit = new Set();
    this.canvas = document.createElement("canvas");
    this.canvas.className = "boxes";
    this.canvas.setAttribute("role", "img");
    this.canvas.setAttribute("aria-label", "One box per path: confidence over tokens. The list of paths below has the same in words.");
    this.canvas.addEventListener("mousemove", event => {
      const path = this.#pathAt(event);
      this.canvas.title = path ? `path ${path.number}: ${describeFate(state, path)}, ${path.tokens} tokens${path.answer == null ? "" : `; answer: ${path.answer}`}` : "";
      highlight(path ? [path.number] : []);
    });
    this.canvas.addEventListener("mouseleave", () => highlight([]));
    this.canvas.addEventListener("click", event => { const path = this.#pathAt(event); if (path) select(path.number); });
    host.append(this.canvas);
    this.resize();
  }

  destroy() { this.canvas.remove(); }

  resize() {
    const ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(this.host.clientWidth * ratio);
    this.canvas.height = Math.round(this.host.clientHeight * ratio);
    this.key = null;
  }

  // Boxes are drawn again only if their path, their highlight or the scales have changed.
  redraw() {
    const count = Math.max(1, Math.ceil(this.state.paths.length / STEP) * STEP), { width, height } = this.canvas;
    this.columns = Math.max(1, Math.round(Math.sqrt(count * width / (height * ASPECT))));
    this.boxWidth = width / this.columns;
    this.boxHeight = height / Math.ceil(count / this.columns);
    const [low, high] = this.state.range, longest = axisEnd(this.longest());
    const key = [count, width, height, low, high, longest, this.state.summary?.gate?.drop, this.state.leader, this.colour("--ink")].join();
    if (key !== this.key) {
      this.key = key;
      this.drawn = [];
      this.canvas.getContext("2d").clearRect(0, 0, width, height);
    }
    for (const path of this.state.paths) {
      if (!path) continue;
      const faded = this.lit.size && !this.lit.has(path.number), kind = this.state.kind(path);
      const stamp = `${kind} ${path.tokens} ${faded} ${this.lit.has(path.number)}`;
      if (this.drawn[path.number] === stamp) continue;
      this.drawn[path.number] = stamp;
      this.#drawBox(path, kind, faded, low, high, longest);
    }
  }

  #drawBox(path, kind, faded, low, high, longest) {
    const ctx = this.canvas.getContext("2d"), ratio = devicePixelRatio || 1, pad = PADDING * ratio;
    const left = (path.number % this.columns) * this.boxWidth, top = Math.floor(path.number / this.columns) * this.boxHeight;
    const width = this.boxWidth - pad, height = this.boxHeight - pad, lit = this.lit.has(path.number);
    const X = tokens => left + 2 * ratio + (width - 4 * ratio) * tokens / longest;
    const Y = value => top + 2 * ratio + (height - 4 * ratio) * (high - value) / (high - low);
    ctx.save();
    ctx.clearRect(left, top, this.boxWidth, this.boxHeight);
    ctx.beginPath(); ctx.rect(left, top, width, height); ctx.clip();
    ctx.globalAlpha = faded ? 0.3 : 1;
    ctx.fillStyle = this.colour("--soft"); ctx.fillRect(left, top, width, height);
    if (lit) { ctx.strokeStyle = this.colour("--ink"); ctx.lineWidth = 3 * ratio; ctx.strokeRect(left, top, width, height); }
    this.#drawThreshold(ctx, left, width, Y, ratio);
    ctx.strokeStyle = this.colour(lit ? `--${kind}` : lineColour(kind));
    ctx.lineWidth = 1.3 * ratio; ctx.lineJoin = "round";
    ctx.beginPath(); traceLine(ctx, path, this.state.summary?.stride ?? 1, X, Y); ctx.stroke();
    const end = path.confidence ?? path.points.at(-1);
    ctx.fillStyle = ctx.strokeStyle = this.colour(`--${kind}`);
    ctx.lineWidth = 1.6 * ratio;
    if (end !== undefined && kind !== "discarded") drawEnd(ctx, kind, X(path.tokens), Y(end), 2.6 * ratio);
    if (width > 30 * ratio) {
      ctx.fillStyle = this.colour(isFaded(kind) ? "--dim" : "--ink");
      ctx.font = `${10 * ratio}px system-ui`;
      ctx.fillText(String(path.number), left + 3 * ratio, top + 11 * ratio);
    }
    ctx.restore();
  }

  #drawThreshold(ctx, left, width, Y, ratio) {
    const drop = this.state.summary?.gate?.drop;
    if (drop === null || drop === undefined) return;
    ctx.strokeStyle = this.colour("--threshold"); ctx.lineWidth = ratio;
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.beginPath(); ctx.moveTo(left, Y(drop)); ctx.lineTo(left + width, Y(drop)); ctx.stroke();
    ctx.setLineDash([]);
  }

  #pathAt(event) {
    const box = this.canvas.getBoundingClientRect(), ratio = devicePixelRatio || 1;
    const column = Math.floor((event.clientX - box.left) * ratio / this.boxWidth), row = Math.floor((event.clientY - box.top) * ratio / this.boxHeight);
    return column < this.columns ? this.state.paths[row * this.columns + column] : undefined;
  }
}

// The panel of all paths: one chart for few of them, one box each above 32, unless the reader chooses.

import { PathChart } from "./path_chart.js";
import { SmallMultiples } from "./small_multiples.js";

const MOST_LINES = 32;

export class PathPanel {
  constructor(host, state, colour, select, longest = () => state.longest) {
    Object.assign(this, { host, state, colour, select, longest });
    this.chart = null;
    this.choice = null;  // the reader's: true for boxes
    this.lit = new Set();
    this.selected = null;
    this.observer = new ResizeObserver(() => { this.chart?.resize(); this.chart?.redraw(); });
    this.observer.observe(host);
  }

  // Token counts alone are drawn as bars, which never overlap.
  get boxed() { return this.state.showsConfidence && (this.choice ?? this.state.paths.length > MOST_LINES); }

  toggle() { this.choice = !this.boxed; this.redraw(); }

  redraw() {
    const kind = this.boxed ? SmallMultiples : PathChart;
    if (!(this.chart instanceof kind)) {
      this.chart?.destroy();
      this.chart = new kind(this.host, this.state, this.colour, this.select, { longest: this.longest, highlight: lit => this.highlight(lit) });
    }
    this.chart.lit = this.selected === null ? this.lit : new Set([...this.lit, this.selected]);
    this.chart.redraw();
  }

  // Brings these paths out and fades the others.
  highlight(numbers) {
    if (numbers.length === this.lit.size && numbers.every(path => this.lit.has(path))) return;
    this.lit = new Set(numbers);
    this.redraw();
  }

  destroy() { this.observer.disconnect(); this.chart?.destroy(); }
}

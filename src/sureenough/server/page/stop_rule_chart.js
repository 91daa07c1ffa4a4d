// The stop rule's measure over the paths counted, and its threshold.

export class StopRuleChart {
  constructor(host, state, colour) {
    this.state = state;
    this.colour = colour;
    const axis = { stroke: () => colour("--dim"), grid: { stroke: () => colour("--grid"), width: 1 }, ticks: { show: false }, font: "12px system-ui" };
    this.plot = new uPlot({
      width: host.clientWidth, height: host.clientHeight, legend: { show: false }, padding: [8, 12, 0, 0],
      cursor: { show: false },
      scales: { x: { time: false, range: () => [0, Math.max(4, (this.state.steps.at(-1)?.[0] ?? 0) * 1.08)] }, y: { range: () => this.#range() } },
      axes: [{ ...axis, size: 26, gap: 2, label: "paths counted", labelSize: 16, labelGap: 0, labelFont: "12px system-ui", incrs: [1, 2, 5, 10, 20, 50, 100, 200] }, { ...axis, size: 46 }],
      series: [{}, { stroke: () => colour(this.state.settled ? "--agrees" : "--running"), width: 2.4,
        fill: () => colour(this.state.settled ? "--agrees" : "--running") + "22", points: { show: (u, s, from, to) => to - from < 40, size: 6, fill: () => colour("--card") } }],
      hooks: { draw: [() => this.#drawThreshold()] },
    }, [[0], [0]], host);
    this.observer = new ResizeObserver(() => { if (host.clientWidth) this.plot.setSize({ width: host.clientWidth, height: host.clientHeight }); });
    this.observer.observe(host);
  }

  destroy() { this.observer.disconnect(); this.plot.destroy(); }

  redraw() {
    const steps = this.state.steps.filter(step => step[2] !== null);
    this.plot.setData(steps.length ? [steps.map(step => step[0]), steps.map(step => step[2])] : [[0], [null]]);
  }

  #range() {
    if (this.state.stop.stops_above) {
      const low = Math.min(0.6, this.state.least);
      return [Math.max(0, Math.floor(low * 5 - 0.5) / 5), 1.03];
    }
    const high = Math.max(this.state.stop.threshold ?? 0, this.state.most);
    return [0, (high || 1) * 1.15];
  }

  #drawThreshold() {
    const { threshold, stops_above: above } = this.state.stop;
    if (threshold === null) return;
    const u = this.plot, ctx = u.ctx, box = u.bbox, ratio = devicePixelRatio || 1, y = u.valToPos(threshold, "y", true);
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = this.colour("--threshold");
    ctx.lineWidth = 1.6 * ratio; ctx.setLineDash([7 * ratio, 5 * ratio]);
    ctx.beginPath(); ctx.moveTo(box.left, y); ctx.lineTo(box.left + box.width, y); ctx.stroke();
    ctx.font = `600 ${12 * ratio}px system-ui`; ctx.textAlign = "left";
    ctx.fillText(above ? `stops above ${threshold}` : `stops at ${threshold}`, box.left + 6 * ratio, y + (above ? 15 : -5) * ratio);
    ctx.restore();
  }
}

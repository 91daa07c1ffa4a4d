// News of a run as large as they get, 64 paths growing at a time, taken and drawn by the page's own modules: milliseconds a frame.
async ([paths, rounds]) => {
  const { State } = await import('/page/state.js'), { Lines } = await import('/page/lines.js');
  const { chips, tiles, votes } = await import('/page/view.js');
  document.getElementById('run').hidden = false;
  const state = new State(), host = document.getElementById('lines'), palette = {};
  const colour = name => (palette[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  const lines = new Lines(host, state, colour, () => {});
  const fates = ['kept', 'pruned', 'kept', 'kept'], took = [], per = Math.ceil(250 / rounds);
  for (let batch = 0; batch < paths; batch += 64) for (let round = 0; round < rounds; round++) {
    const over = round === rounds - 1, news = { paths: [], standing: { votes: [['7', 300 + batch], ['8', 120]], started: batch + 64,
      counted: batch, budget: paths, warmup: 16, window: 64, stride: 8, made: 1e6, plain: 2e6, bar: 0.95, rises: true, why: '',
      gate: { drop: 9 }, reads: true } };
    for (let n = batch; n < batch + 64; n++) {
      const counted = over && n % 4 !== 1, points = [];
      for (let i = 0; i < per; i++) points.push(12 + 3 * Math.sin(n + (round * per + i) / 9));
      news.paths.push({ path: n, tokens: (round + 1) * per * 8, tier: null, answer: '7', counted, vote: counted ? '7' : null,
        fate: over ? fates[n % 4] : null, points, now: points.at(-1) });
    }
    const began = performance.now();
    state.take(news); tiles(state); votes(state); chips(state, null, () => {}); lines.redraw();
    await new Promise(queueMicrotask);  // the chart draws in one
    lines.plot.ctx.getImageData(0, 0, 1, 1);  // and this waits until it is drawn
    took.push(performance.now() - began);
    await new Promise(requestAnimationFrame);
  }
  const sorted = took.slice().sort((a, b) => a - b), points = state.paths.reduce((sum, path) => sum + path.points.length, 0);
  return [sorted[Math.floor(sorted.length / 2)], sorted.at(-1), took.at(-1), points];
}

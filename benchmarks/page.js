// The log of a run as large as they get, 64 paths at a time, applied and drawn by the page's own modules: milliseconds per frame.
async ([paths, rounds, boxed]) => {
  const { RunState } = await import('/page/run_state.js'), { PathPanel } = await import('/page/path_panel.js');
  const { showChips, showTiles, showVotes } = await import('/page/panels.js');
  document.getElementById('run').hidden = false;
  const state = new RunState(), host = document.getElementById('path-chart'), palette = {};
  const colour = name => (palette[name] ??= getComputedStyle(document.documentElement).getPropertyValue(name).trim());
  const panel = new PathPanel(host, state, colour, () => {}), list = document.getElementById('votes'), note = document.getElementById('votes-note');
  panel.choice = boxed;
  const fates = ['kept', 'pruned', 'kept', 'kept'], times = [], per = Math.ceil(250 / rounds);
  for (let batch = 0; batch < paths; batch += 64) for (let round = 0; round < rounds; round++) {
    const last = round === rounds - 1, line = { paths: [], summary: { votes: [[0, 300 + batch], [1, 120]], started: batch + 64,
      counted: batch, budget: paths, warmup: 16, window: 64, stride: 8, tokens: 1e6, full_budget_tokens: 2e6, why: '',
      stop: { quantity: 'posterior', threshold: 0.95, stops_above: true }, measure: 0.9, gate: { drop: 9 }, reads_confidence: true } };
    for (let n = batch; n < batch + 64; n++) {
      const counted = last && n % 4 !== 1, points = [];
      for (let i = 0; i < per; i++) points.push(12 + 3 * Math.sin(n + (round * per + i) / 9));
      line.paths.push({ path: n, tokens: (round + 1) * per * 8, tier: null, answer: '7', counted, vote: counted ? 0 : null,
        fate: last ? fates[n % 4] : null, points, confidence: points.at(-1) });
    }
    const began = performance.now();
    state.apply(line); showTiles(state); showVotes(state, list, note, () => {}); showChips(state, null, () => {}, () => {}); panel.redraw();
    await new Promise(queueMicrotask);  // the chart draws in one
    host.querySelector('canvas').getContext('2d').getImageData(0, 0, 1, 1);  // and this waits until it is drawn
    times.push(performance.now() - began);
    await new Promise(requestAnimationFrame);
  }
  const sorted = times.slice().sort((a, b) => a - b), points = state.paths.reduce((sum, path) => sum + path.points.length, 0);
  return [sorted[Math.floor(sorted.length / 2)], sorted.at(-1), times.at(-1), points];
}

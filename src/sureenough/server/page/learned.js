// The settings view: what the server has learned of each model's confidence, and how long its requests took.

import { $, base, element, number, setText } from "./dom.js";

const SIGNAL_NAMES = { tail: "End of the path", mean_peak: "Whole path" };
const MOST_ROWS = 12;

export async function showLearned() {
  const response = await fetch(`${base}/api/learned`).catch(() => null);
  if (!response?.ok) return;
  const { learned: rows, latency } = await response.json();
  rows.sort((a, b) => b.questions - a.questions);
  setText("latency", latency ? `The last ${number.format(latency.requests)} requests took ${latency.mean.toFixed(1)} s on average; 95% of them at most ${latency.p95.toFixed(1)} s.` : "No request to /v1 has been answered yet.");
  $("learned").hidden = false;
  $("learned-table").tBodies[0].replaceChildren(...rows.slice(0, MOST_ROWS).map(tableRow));
  setText("learned-more", !rows.length ? "Nothing yet." : rows.length > MOST_ROWS ? `${rows.length - MOST_ROWS} more are in /api/learned.` : "");
}

function tableRow(row) {
  const line = element("tr");
  const cells = [row.model, row.strategy, row.window ? String(row.window) : "–", String(row.questions)];
  line.append(...cells.map((text, at) => element("td", at > 1 ? "n" : "", text)));
  for (const name of Object.keys(SIGNAL_NAMES)) {
    const signal = row.signals[name];
    const cell = element("td", "n", signal ? `${signal.r.toFixed(2)} · ${signal.beta.toFixed(2)}` : "–");
    if (signal) cell.title = `${SIGNAL_NAMES[name]}: r ${signal.r.toFixed(3)}, from ${signal.questions} questions; beta ${signal.beta.toFixed(3)}`;
    line.append(cell);
  }
  const names = $("learned-table").tHead.rows[0].cells;  // on a phone they stand before the values
  [...line.cells].forEach((cell, at) => { cell.dataset.name = names[at].textContent.trim(); });
  return line;
}

// What the server has learned of each model's confidence.

import { $, base, element, setText } from "./dom.js";

const SIGNAL_NAMES = { tail: "End of the path", mean_peak: "Whole path" };
const MOST_ROWS = 12;

// The rows of the run's own model and strategy come first. `run` and `result` may be missing.
export async function showLearned(run, result) {
  let rows;
  try {
    const response = await fetch(`${base}/api/learned`);
    if (!response.ok) return;
    rows = (await response.json()).learned;
  } catch { return; }  // the panel is an extra
  const isOwn = row => row.model === run?.model && row.strategy === run?.strategy && (!result || row.window === result.window);
  rows.sort((a, b) => isOwn(b) - isOwn(a) || b.questions - a.questions);
  $("learned").hidden = !rows.length;
  $("learned-table").tBodies[0].replaceChildren(...rows.slice(0, MOST_ROWS).map(row => tableRow(row, isOwn(row))));
  const used = result?.learned?.questions;
  setText("learned-run", used === undefined ? "" : used === 0 ? "This run began with nothing learned yet." : `This run began with what ${used} earlier ${used === 1 ? "question" : "questions"} had taught.`);
  setText("learned-more", rows.length > MOST_ROWS ? `${rows.length - MOST_ROWS} more are in /api/learned.` : "");
}

function tableRow(row, isOwn) {
  const line = element("tr", isOwn ? "own" : "");
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

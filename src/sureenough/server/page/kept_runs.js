// The list of kept runs and bench reports.

import { $, base, element, setText } from "./dom.js";

export async function listRuns(showError) {
  let data;
  try {
    const response = await fetch(`${base}/api/runs`);
    data = await response.json();
    if (!response.ok) { showError("The request failed.", data.error.message); return; }
  } catch { showError("No response from the server.", "Is it still running?"); return; }
  setText("kept-note", data.keeping ? (data.runs.length ? "Newest first." : "There are no runs yet: ask a question.")
    : "This server keeps no runs; start it with --keep-runs FOLDER.");
  $("kept-table").hidden = !data.runs.length;
  $("kept-table").tBodies[0].replaceChildren(...data.runs.map(row));
  $("reports-name").hidden = !data.reports.length;
  $("reports").replaceChildren(...data.reports.map(name => {
    const item = element("li"), link = element("a", "", name);
    link.href = `${base}/reports/${name.split("/").map(encodeURIComponent).join("/")}`;
    item.append(link);
    return item;
  }));
}

// Files may hold anything: every value is shown as text.
function row(run) {
  const line = element("tr"), question = element("td", "q");
  const link = element("a", "", String(run.question ?? "").slice(0, 160) || "(no text)");
  link.href = `${base}/runs/${encodeURIComponent(run.id)}`;
  question.append(link);
  const begun = new Date(run.begun * 1000);
  line.append(element("td", "", isNaN(begun) ? "" : begun.toLocaleString()), question, element("td", "", String(run.strategy ?? "")),
    element("td", "", String(run.answer ?? "–")), element("td", "n", String(run.started ?? "")),
    element("td", "n", run.tokens?.toLocaleString("en") ?? ""), element("td", "", String(run.reason ?? run.error ?? "")));
  return line;
}

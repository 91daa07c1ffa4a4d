// The list of runs that were kept, and of bench reports beside them.

import { $, make, write } from "./view.js";

export async function listRuns(fail) {
  let said;
  try {
    const reply = await fetch("/api/runs");
    said = await reply.json();
    if (!reply.ok) { fail("That did not work.", said.error.message); return; }
  } catch { fail("The server does not answer.", "Is it still running?"); return; }
  write("kept-says", said.keeping ? (said.runs.length ? "Newest first." : "Nothing has been kept yet: ask something.")
    : "This server keeps no runs; start it with --keep-runs FOLDER.");
  $("kept-table").hidden = !said.runs.length;
  $("kept-table").tBodies[0].replaceChildren(...said.runs.map(row));
  $("reports-name").hidden = !said.reports.length;
  $("reports").replaceChildren(...said.reports.map(name => {
    const item = make("li"), link = make("a", "", name);
    link.href = `/reports/${name.split("/").map(encodeURIComponent).join("/")}`;
    item.append(link);
    return item;
  }));
}

function row(run) {
  const over = run.over ?? {}, line = make("tr"), question = make("td", "q"), link = make("a", "", run.question.slice(0, 160) || "(no text)");
  link.href = `/runs/${encodeURIComponent(run.id)}`;
  question.append(link);
  line.append(make("td", "", new Date(run.begun * 1000).toLocaleString()), question, make("td", "", run.strategy), make("td", "", over.answer ?? "–"),
    make("td", "n", String(over.started ?? "")), make("td", "n", over.tokens ? over.tokens.total.toLocaleString("en") : ""), make("td", "", over.reason ?? ""));
  return line;
}

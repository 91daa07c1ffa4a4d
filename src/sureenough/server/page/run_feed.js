// Follows the log of a run: reads its lines as they come, and connects again if the connection breaks.

import { base } from "./dom.js";

export const NO_RESPONSE = ["No response from the server.", "Is it still running?"];
const ATTEMPTS = 6;

// `reader` has restart(), apply(line), isOver(), showMissing(error) and showError(title, message).
export async function follow(id, signal, reader) {
  for (let attempt = 0; !signal.aborted && attempt < ATTEMPTS; attempt++) {
    try {
      const response = await fetch(`${base}/api/runs/${encodeURIComponent(id)}/events`, { signal });
      if (!response.ok) { reader.showMissing((await response.json()).error); return; }
      if (attempt) reader.restart();
      await readEvents(response.body, line => { attempt = 0; reader.apply(line); });
      if (reader.isOver()) return;
    } catch (error) {
      if (signal.aborted) return;
    }
    reader.showError(NO_RESPONSE[0], "Trying again…");
    await new Promise(wake => setTimeout(wake, 400 * 2 ** attempt));
  }
  if (!signal.aborted) reader.showError("The connection to the server is lost.", "Reload the page when it is back.");
}

async function readEvents(body, apply) {
  const parts = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await parts.read();
    if (done) return;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    for (const event of events) if (event.startsWith("data: ")) apply(JSON.parse(event.slice(6)));
  }
}

// A path's tokens with their confidence; null if it has no text yet.
export async function fetchPath(id, number) {
  const response = await fetch(`${base}/api/runs/${encodeURIComponent(id)}/paths/${number}`);
  return response.ok ? response.json() : null;
}

export async function startRun(body) {
  const response = await fetch(`${base}/api/runs`, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const data = await response.json();
  if (!response.ok) throw data.error;
  return data.id;
}

export const stopRun = id => fetch(`${base}/api/runs/${encodeURIComponent(id)}`, { method: "DELETE" });

export function errorTitle(error) {
  const titles = { upstream_unavailable: "The upstream cannot be reached.", missing_logprobs: "The upstream sends no log-probabilities.",
    model_not_found: "The model does not exist.", rate_limit_exceeded: "The server is busy." };
  return titles[error.code] ?? "The request failed.";
}

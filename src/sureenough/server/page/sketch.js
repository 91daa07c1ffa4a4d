// How one path is drawn, whatever the scales: its line, and the mark at its end.

const FADED = new Set(["pruned", "discarded", "failed"]);
export const CHANGING = new Set(["running", "waiting"]);
export const ORDER = ["discarded", "failed", "pruned", "uncounted", "silent", "differs", "agrees", "waiting", "running"];

export const isFaded = kind => FADED.has(kind);
export const lineColour = kind => (FADED.has(kind) ? "--faded" : `--${kind}`);

// The line of a path's confidence; X and Y turn tokens and confidence into pixels.
export function traceLine(ctx, path, stride, X, Y) {
  const { points, confidence, tokens } = path;
  for (let at = 0; at < points.length; at++) {
    const x = X((at + 1) * stride), y = Y(points[at]);
    if (at) ctx.lineTo(x, y); else ctx.moveTo(x, y);
  }
  if (confidence === undefined || tokens <= points.length * stride) return;
  if (points.length) ctx.lineTo(X(tokens), Y(confidence)); else ctx.moveTo(X(tokens), Y(confidence));
}

// A dot for a path that runs or voted, a cross for one that was cut short.
export function drawEnd(ctx, kind, x, y, radius) {
  ctx.beginPath();
  if (kind === "pruned" || kind === "failed") {
    ctx.moveTo(x - radius, y - radius); ctx.lineTo(x + radius, y + radius);
    ctx.moveTo(x + radius, y - radius); ctx.lineTo(x - radius, y + radius);
    ctx.stroke();
  } else { ctx.arc(x, y, radius * 0.88, 0, 7); ctx.fill(); }
}

// The end of an axis that moves rarely: the next step of a scale whose steps grow by a quarter.
export function axisEnd(longest) {
  let end = 16;
  while (end < longest * 1.02) end = Math.ceil(end * 1.25 / 4) * 4;
  return end;
}

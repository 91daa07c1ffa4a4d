// The text of one path: whole, with its tokens shaded by confidence, or its final part. Always as text.

import { $, element, number, setText } from "./dom.js";
import { describeFate } from "./run_state.js";

const SHOWN = 700;  // characters of a final part
const NEXT_BREAK = 120;  // characters after the cut within which a line or sentence may begin

// The end of a text, where the answer is: without reasoning that is marked, and from the beginning of a line if one is near.
export function finalPart(texts) {
  const whole = texts.join(""), text = whole.split("</think>").at(-1).trim() || whole.trim();
  if (text.length <= SHOWN) return text;
  const end = text.slice(-SHOWN), at = end.search(/\n|[.!?] /);
  return `…${end.slice(at >= 0 && at < NEXT_BREAK ? at + 1 : 0).trimStart()}`;
}

export function showPath(state, path, text) {
  $("reader").hidden = false;
  setText("reader-title", `Path ${path.number}`);
  const answer = path.answer == null ? "" : `; its answer: ${path.answer}`;
  setText("reader-note", `${describeFate(state, path)}, ${number.format(path.tokens)} tokens${answer}`);
  const conf = text?.confidence ?? [];
  $("text").replaceChildren(shaded(text?.texts ?? [], conf));
  showScale(conf.length > 0, Boolean(text?.texts.length), state);
}

// Neighbours of the same shade share an element: a path may have thousands of tokens.
function shaded(texts, conf) {
  const fragment = document.createDocumentFragment(), level = shadeLevels(conf);
  let last = null;
  texts.forEach((piece, at) => {
    const shade = String(conf.length ? level(conf[at]) : 7);
    if (last?.dataset.level === shade) { last.firstChild.data += piece; return; }
    last = element("span", `c${shade}`);
    last.dataset.level = shade;
    last.append(document.createTextNode(piece));
    fragment.append(last);
  });
  return fragment;
}

function showScale(isShaded, hasText, state) {
  const scale = $("scale");
  scale.replaceChildren();
  if (!hasText) scale.append("It has no text yet.");
  else if (!isShaded) scale.append(state.summary?.reads_confidence === false ? "This strategy does not use confidence, so nothing is shaded."
    : "The confidence of single tokens is not known, so nothing is shaded.");
  else {
    scale.append("least confident ");
    for (let level = 0; level < 8; level++) scale.append(element("i", `c${level}`, "\u00a0"));
    scale.append(" most confident, within this path");
  }
}

function shadeLevels(conf) {
  const sorted = conf.filter(value => value !== null).sort((a, b) => a - b);
  const low = sorted[Math.floor(sorted.length * 0.02)] ?? 0, high = sorted[Math.floor(sorted.length * 0.7)] ?? 1;
  return value => (value === null ? 7 : Math.max(0, Math.min(7, Math.floor(8 * (value - low) / (high - low || 1)))));
}

// The search for one path as a tree: a column per round, a node per branch, thick where the path was made from it.

import { $, number, setText } from "./dom.js";

const COLUMN = 56, ROW = 20, MARGIN = 16;  // pixels
const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes, className) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  if (className) node.setAttribute("class", className);
  return node;
}

// Branches by round; within a round, those of the same parent stand together.
function layout(branches) {
  const rounds = [], places = new Map();
  for (const branch of branches) if (branch) (rounds[branch.round] ??= []).push(branch);
  const rows = Math.max(1, ...rounds.filter(Boolean).map(round => round.length));
  const middle = MARGIN + ROW * (rows - 1) / 2, parentY = branch => places.get(branch.parent)?.y ?? middle;
  rounds.forEach((round, column) => {
    round.sort((a, b) => parentY(a) - parentY(b) || a.branch - b.branch);
    const top = middle - ROW * (round.length - 1) / 2;
    round.forEach((branch, row) => places.set(branch.branch, { x: MARGIN + COLUMN * (column + 1), y: top + ROW * row }));
  });
  return { places, rounds: rounds.length, root: { x: MARGIN, y: middle }, height: 2 * MARGIN + ROW * (rows - 1) };
}

function draw(path, branches) {
  const { places, rounds, root, height } = layout(branches), width = 2 * MARGIN + COLUMN * rounds;
  const picture = svg("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img" });
  picture.setAttribute("aria-label", describe(path, branches));
  const continued = new Set(branches.map(branch => branch.parent)), edges = svg("g", {}), nodes = svg("g", {});
  nodes.append(svg("circle", { cx: root.x, cy: root.y, r: 4 }, "used"));
  for (const branch of branches) {
    const from = places.get(branch.parent) ?? root, to = places.get(branch.branch), half = (from.x + to.x) / 2;
    const kind = branch.used ? "used" : continued.has(branch.branch) ? "beam" : "rollout";
    edges.append(svg("path", { d: `M${from.x} ${from.y}C${half} ${from.y} ${half} ${to.y} ${to.x} ${to.y}` }, kind));
    const node = svg("circle", { cx: to.x, cy: to.y, r: 3 + Math.min(4, Math.sqrt(Math.max(0, branch.tokens ?? 0)) / 5) }, kind), title = svg("title", {});
    title.textContent = `round ${branch.round}, ${number.format(branch.tokens ?? 0)} tokens${branch.text ? `: ${branch.text}` : ""}`;
    node.append(title);
    nodes.append(node);
  }
  picture.append(edges, nodes);
  return picture;
}

function describe(path, branches) {
  const used = branches.filter(branch => branch.used).length, rounds = Math.max(...branches.map(branch => branch.round)) + 1;
  return `${number.format(branches.length)} branches in ${rounds} rounds; path ${path.number} was made from ${used} of them`;
}

let drawn = {};

// The tree of the selected path, else of the one that the answer is from, else of the first.
export function showSearch(state, selected) {
  const searched = state.paths.filter(path => path?.branches.length), card = $("search-card");
  card.hidden = !searched.length;
  if (card.hidden) return;
  const path = searched.find(one => one.number === selected) ?? searched.find(one => one === state.winner) ?? searched[0];
  if (drawn.path === path && drawn.changes === path.branchChanges) return;
  drawn = { path, changes: path.branchChanges };
  const branches = path.branches.filter(branch => branch?.round !== undefined);
  setText("search-name", `The search for path ${path.number}`);
  setText("search-note", `${describe(path, branches)}; a column is a round, a thick line the path, and a node grows with its tokens`);
  $("search-tree").replaceChildren(draw(path, branches));
}

// Elements of the page. Text is inserted as text nodes, never as markup.

export const $ = id => document.getElementById(id);

// Where this server's pages begin: nothing, or a path below which another server has them.
export const base = new URL("..", import.meta.url).pathname.replace(/\/$/, "");

export const number = new Intl.NumberFormat("en");

export function element(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

// Changes a node only if its text is another: a redraw must not disturb what is being read or selected.
export function fill(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export const setText = (id, text) => fill($(id), text);

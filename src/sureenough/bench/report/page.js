"use strict";
// Tables sort by the values in their cells; the theme follows the system until the button is used.
(() => {
  function sort(table, column) {
    const body = table.tBodies[0], head = table.tHead.rows[0].cells[column], up = head.getAttribute("aria-sort") !== "ascending";
    table.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = (row) => { const cell = row.cells[column]; return cell.dataset.v === undefined ? cell.textContent : cell.dataset.v === "" ? null : Number(cell.dataset.v); };
    const compare = (a, b) => a === null || b === null ? (a === null) - (b === null)
      : (up ? 1 : -1) * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true}));
    body.append(...[...body.rows].sort((a, b) => compare(key(a), key(b))));
  }

  function sortable(table) {
    table.querySelectorAll("thead th").forEach((head, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, column));
      head.append(button);
    });
  }

  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const setTheme = (theme) => { root.dataset.theme = theme; };
  setTheme(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => setTheme(root.dataset.theme === "dark" ? "light" : "dark"));
  document.querySelectorAll("table").forEach(sortable);
})();

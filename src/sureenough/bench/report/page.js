"use strict";
// Tables sort, figures are drawn as SVG from the page's own data. Text is only ever set as text.
(() => {
  const NS = "http://www.w3.org/2000/svg", W = 560, H = 330, LEFT = 62, RIGHT = 14, TOP = 12;
  const SHAPES = ["M0-4.6A4.6 4.6 0 1 0 0 4.6 4.6 4.6 0 1 0 0-4.6Z", "M-4-4H4V4H-4Z", "M0-5.6 5.6 0 0 5.6-5.6 0Z",
    "M0-5.2 5 4H-5Z", "M0 5.2 5-4H-5Z", "M-1.7-5H1.7V-1.7H5V1.7H1.7V5H-1.7V1.7H-5V-1.7H-1.7Z"];
  const data = JSON.parse(document.getElementById("data").textContent);

  function svg(parent, name, attributes, text) {
    const node = document.createElementNS(NS, name);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    if (text !== undefined) node.textContent = text;
    if (parent) parent.appendChild(node);
    return node;
  }
  const html = (parent, name, text, type) => {
    const node = document.createElement(name);
    if (text !== undefined) node.textContent = text;
    if (type) node.className = type;
    return parent.appendChild(node);
  };
  const short = (v) => {
    if (Number.isInteger(v) && Math.abs(v) < 1e4 && v % 100) return String(v);
    for (const [size, letter] of [[1e9, "G"], [1e6, "M"], [1e3, "k"]])
      if (Math.abs(v) >= size) return String(Number((v / size).toPrecision(3))) + letter;
    return String(Number(v.toPrecision(3)));
  };
  const says = (v, axis) => v === null ? "–" : axis.percent ? (100 * v).toFixed(1) + " %" : v.toLocaleString("en", {maximumSignificantDigits: 4});
  const dye = (s, i) => s.theirs ? "paper" : `s${i % 8}`;
  const cut = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;

  // -- scales
  function linear(low, high, from, to, steps) {
    const raw = (high - low || 1) / steps, power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].find((m) => m * power >= raw * 0.999) * power;
    const first = Math.floor(low / step + 1e-9) * step, last = Math.ceil(high / step - 1e-9) * step || step;
    const ticks = [];
    for (let i = 0; first + i * step <= last + step / 1e6; i++) ticks.push(Number((first + i * step).toPrecision(12)));
    return {at: (v) => from + (v - first) / (last - first || 1) * (to - from), ticks};
  }
  const round = (v) => Number(v.toPrecision(2)) === v || Number.isInteger(Math.log2(v)); // a sweep's own values
  function logarithmic(low, high, from, to, places) {
    const a = Math.log(low / 1.15), b = Math.log(high * 1.15);
    let ticks = places.length <= 9 && places.every(round) ? places : [];
    if (!ticks.length) for (let e = Math.floor(Math.log10(low)) - 1; e <= Math.log10(high) + 1; e++)
      for (const m of [1, 2, 5]) { const v = m * 10 ** e; if (v >= low / 1.15 && v <= high * 1.15) ticks.push(v); }
    const at = (v) => from + (Math.log(v) - a) / (b - a || 1) * (to - from);
    let last = -1e9; // labels keep their distance
    ticks = ticks.filter((v) => { const x = at(v), far = Math.abs(x - last) > 34; if (far) last = x; return far; });
    return {at, ticks};
  }
  function scale(axis, values, from, to, steps, zero) {
    const known = values.filter((v) => typeof v === "number" && (axis.scale !== "log" || v > 0));
    if (!known.length) return linear(0, 1, from, to, steps);
    let low = Math.min(...known), high = Math.max(...known);
    if (axis.scale === "log") return logarithmic(low, high, from, to, [...new Set(known)].sort((a, b) => a - b));
    if (zero) { low = Math.min(0, low); high = Math.max(0, high); }
    else if (axis.percent && high - low < 0.02) { low = Math.max(0, low - 0.02); high = Math.min(1, high + 0.02); }
    else if (low === high) { low -= Math.abs(low) * 0.1 || 1; high += Math.abs(high) * 0.1 || 1; }
    return linear(low, high, from, to, steps);
  }

  // -- one figure
  function draw(box, figure) {
    const holder = box.querySelector(".plot"), tip = html(box, "div", undefined, "tip"), hidden = new Set();
    tip.hidden = true;
    const names = [...new Set(figure.series.flatMap((s) => s.x.map(String)))], category = figure.x.scale === "category";
    const longest = Math.max(0, ...names.map((name) => Math.min(24, name.length)));
    const room = category && longest * 7 > (W - LEFT - RIGHT) / names.length ? 84 : 46;
    const series = () => figure.series.map((s, i) => ({...s, i})).filter((s) => !hidden.has(s.i));

    function paint() {
      holder.replaceChildren();
      tip.hidden = true;
      const root = svg(holder, "svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": figure.title});
      const shown = series(), spread = shown.flatMap((s) => figure.kind === "line" ? s.y : [...s.y, ...s.low, ...s.high]);
      const y = scale(figure.y, spread, H - room, TOP, 5, figure.kind === "bar" || figure.kind === "steps");
      const x = category ? {at: (n) => LEFT + (names.indexOf(n) + 0.5) * (W - LEFT - RIGHT) / names.length, ticks: names}
        : scale(figure.x, shown.flatMap((s) => s.x), LEFT + 6, W - RIGHT - 6, 6, false);
      frame(root, x, y);
      const kinds = {line: lines, points: lines, steps: lines, bar: bars};
      kinds[figure.kind](root, shown, x, y);
    }
    function frame(root, x, y) {
      for (const v of y.ticks) {
        svg(root, "line", {class: "grid", x1: LEFT, x2: W - RIGHT, y1: y.at(v), y2: y.at(v)});
        svg(root, "text", {x: LEFT - 7, y: y.at(v) + 4, "text-anchor": "end"}, figure.y.percent ? short(100 * v) : short(v));
      }
      for (const v of x.ticks) {
        const at = x.at(v), low = H - room + 16, tilted = room > 60;
        svg(root, "line", {class: "axis", x1: at, x2: at, y1: H - room, y2: H - room + 4});
        svg(root, "text", {x: at, y: low, "text-anchor": tilted ? "end" : "middle", ...(tilted ? {transform: `rotate(-24 ${at} ${low})`} : {})},
          category ? cut(v, 24) : figure.x.percent ? short(100 * v) : short(v));
      }
      svg(root, "path", {class: "axis", d: `M${LEFT} ${TOP}V${H - room}H${W - RIGHT}`});
      svg(root, "text", {class: "title", x: (LEFT + W - RIGHT) / 2, y: H - 6, "text-anchor": "middle"}, figure.x.title);
      svg(root, "text", {class: "title", x: 14, y: (TOP + H - room) / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${(TOP + H - room) / 2})`}, figure.y.title);
    }
    function lines(root, shown, x, y) {
      for (const s of shown) {
        const group = svg(root, "g", {class: "series " + dye(s, s.i)}), spots = [];
        s.x.forEach((v, k) => { if (v !== null && s.y[k] !== null && !(figure.x.scale === "log" && v <= 0)) spots.push([x.at(v), y.at(s.y[k]), k]); });
        const clip = (v) => Math.max(TOP, Math.min(H - room, y.at(v)));
        if (s.low.length && figure.kind === "line") {
          const up = spots.filter((p) => s.low[p[2]] !== null && s.high[p[2]] !== null);
          const d = [...up.map((p) => `${p[0]} ${clip(s.high[p[2]])}`), ...up.slice().reverse().map((p) => `${p[0]} ${clip(s.low[p[2]])}`)];
          if (d.length) svg(group, "path", {class: "band fill", d: `M${d.join("L")}Z`});
        }
        if (s.low.length && figure.kind === "points") for (const [px, , k] of spots)
          if (s.low[k] !== null) svg(group, "line", {class: "whisker ink", x1: px, x2: px, y1: y.at(s.low[k]), y2: y.at(s.high[k])});
        const style = (s.theirs ? " theirs" : "") + (s.i > 7 ? " dash" : "");
        if (figure.kind === "line") svg(group, "path", {class: "line ink" + style, d: "M" + spots.map((p) => `${p[0]} ${p[1]}`).join("L")});
        if (figure.kind === "steps" && spots.length) {
          const half = spots.length > 1 ? (spots[1][0] - spots[0][0]) / 2 : 4;
          svg(group, "path", {class: "line ink", d: "M" + spots.map((p) => `${p[0] - half} ${p[1]}H${p[0] + half}`).join("L")});
        } else for (const [px, py] of spots) svg(group, "path", {class: "mark ink " + (s.i > 7 ? "hollow" : "fill"), d: SHAPES[s.i % 6], transform: `translate(${px} ${py})`});
        for (const [px, py, k] of spots) target(svg(group, "circle", {cx: px, cy: py, r: figure.kind === "steps" ? 6 : 11, fill: "transparent"}), root, group, s, k);
      }
    }
    function bars(root, shown, x, y) {
      const wide = (W - LEFT - RIGHT) / names.length * 0.8 / Math.max(1, shown.length);
      shown.forEach((s, n) => {
        const group = svg(root, "g", {class: "series " + dye(s, s.i)});
        s.x.forEach((name, k) => {
          if (s.y[k] === null) return;
          const left = x.at(name) - wide * shown.length / 2 + n * wide, ends = [y.at(0), y.at(s.y[k])];
          const bar = svg(group, "rect", {class: "mark fill", x: left + 1, width: Math.max(1, wide - 2), y: Math.min(...ends), height: Math.max(1, Math.abs(ends[0] - ends[1]))});
          if (s.low.length && s.low[k] !== null) svg(group, "line", {class: "axis", x1: left + wide / 2, x2: left + wide / 2, y1: y.at(s.low[k]), y2: y.at(s.high[k])});
          target(bar, root, group, s, k);
        });
      });
    }
    function target(node, root, group, s, k) {
      node.addEventListener("pointerenter", () => {
        for (const other of root.querySelectorAll(".series")) other.classList.toggle("dim", other !== group && figure.series.length > 2);
        group.classList.add("shown");
        tip.replaceChildren();
        html(tip, "strong", s.labels[k] || s.name);
        html(tip, "div", `${figure.x.title || "at"}: ${typeof s.x[k] === "number" ? says(s.x[k], figure.x) : s.x[k]}`);
        const bounds = s.low.length && s.low[k] !== null ? ` [${says(s.low[k], figure.y)}, ${says(s.high[k], figure.y)}]` : "";
        html(tip, "div", `${figure.y.title}: ${says(s.y[k], figure.y)}${bounds}`);
        if (s.theirs) html(tip, "div", `the paper's own, ${s.theirs}`);
        tip.hidden = false;
        const place = node.getBoundingClientRect(), frame_ = box.getBoundingClientRect();
        const left = place.left - frame_.left + place.width / 2 + 12;
        tip.style.left = `${Math.max(4, Math.min(left, frame_.width - tip.offsetWidth - 8))}px`;
        tip.style.top = `${Math.max(4, place.top - frame_.top - tip.offsetHeight - 8)}px`;
      });
      node.addEventListener("pointerleave", () => {
        tip.hidden = true;
        group.classList.remove("shown");
        for (const other of root.querySelectorAll(".dim")) other.classList.remove("dim");
      });
    }
    const legend = box.querySelector(".legend");
    if (figure.series.length > 1 || figure.series[0]?.theirs) figure.series.forEach((s, i) => {
      const button = html(legend, "button", undefined, dye(s, i));
      const sample = svg(button, "svg", {viewBox: "-8 -6 16 12", "aria-hidden": "true"});
      if (figure.kind === "line" || figure.kind === "steps") svg(sample, "path", {class: "line ink" + (s.theirs ? " theirs" : ""), d: "M-8 0H8"});
      if (figure.kind !== "steps") svg(sample, "path", {class: "ink " + (i > 7 ? "hollow" : "fill"), d: figure.kind === "bar" ? SHAPES[1] : SHAPES[i % 6]});
      html(button, "span", cut(s.name, 40) + (s.theirs ? ` (paper, ${s.theirs})` : ""));
      button.type = "button";
      button.setAttribute("aria-pressed", "true");
      button.addEventListener("click", () => {
        hidden.has(i) ? hidden.delete(i) : hidden.add(i);
        button.setAttribute("aria-pressed", String(!hidden.has(i)));
        paint();
      });
    });
    paint();
  }

  // -- tables
  function sortable(table) {
    const body = table.tBodies[0];
    table.querySelectorAll("thead button").forEach((button, column) => button.addEventListener("click", () => {
      const head = button.closest("th"), up = head.getAttribute("aria-sort") !== "ascending";
      table.querySelectorAll("th").forEach((th) => th.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      const key = (row) => { const cell = row.cells[column]; return cell.dataset.v === undefined ? cell.textContent : cell.dataset.v === "" ? null : Number(cell.dataset.v); };
      const compare = (a, b) => a === null || b === null ? (a === null) - (b === null)
        : (up ? 1 : -1) * (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b), "en", {numeric: true}));
      body.append(...[...body.rows].sort((a, b) => compare(key(a), key(b))));
    }));
  }

  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const dress = (theme) => { root.dataset.theme = theme; };
  dress(dark.matches ? "dark" : "light");
  dark.addEventListener("change", () => dress(dark.matches ? "dark" : "light"));
  document.getElementById("theme").addEventListener("click", () => dress(root.dataset.theme === "dark" ? "light" : "dark"));
  document.querySelectorAll("table").forEach(sortable);
  document.querySelectorAll("figure[data-figure]").forEach((box) => {
    const [result, number] = box.dataset.figure.split(":").map(Number);
    draw(box, data[result].figures[number]);
  });
})();

"use strict";
// The page is complete without this: sorting, tooltips.
(() => {
  const root = document.documentElement;
  const value = (cell) => ("value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent);
  const before = (a, b) => {
    const numeric = typeof a === "number" && typeof b === "number";
    if (!numeric && typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
    return numeric ? a - b : a.localeCompare(b, undefined, { numeric: true });
  };
  for (const table of document.querySelectorAll(".sortable")) {
    const heads = [...table.querySelectorAll("th")];
    const body = table.tBodies[0];
    if (body.rows.length < 2) continue;
    heads.forEach((head, index) => {
      head.classList.add("sort");
      head.tabIndex = 0;
      const sort = () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of heads) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...body.rows].sort((a, b) => before(value(a.cells[index]), value(b.cells[index])));
        body.append(...(down ? rows.reverse() : rows));
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    });
  }

  const data = JSON.parse(document.getElementById("points").textContent);
  const tip = document.getElementById("tip");
  const nearest = (series, x, y) => {
    let best = -1, least = 20 * 20;
    for (let i = 0; i < series.x.length; i++) {
      const distance = (series.x[i] - x) ** 2 + (series.y[i] - y) ** 2;
      if (distance < least) { least = distance; best = i; }
    }
    return best;
  };
  const words = (series, i) => {
    const lines = [series.shown[i], data.kinds[series.kind[i]]];
    if (series.at.length) lines.push(`${series.at[i].toFixed(3)} s after the start`);
    if (series.process.length) lines.push(`process ${series.process[i] + 1}`);
    return lines.join("\n");
  };
  for (const figure of document.querySelectorAll(".timeline")) {
    const chart = figure.querySelector("svg.samples");
    const series = data.series[Number(figure.dataset.series)];
    chart.addEventListener("pointermove", (event) => {
      const place = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse());
      const found = nearest(series, place.x, place.y);
      tip.hidden = found < 0;
      if (found < 0) return;
      tip.textContent = words(series, found);
      const left = Math.min(event.pageX + 14, root.clientWidth - tip.offsetWidth - 8);
      tip.style.left = `${left}px`;
      tip.style.top = `${event.pageY + 14}px`;
    });
    chart.addEventListener("pointerleave", () => { tip.hidden = true; });
  }
})();

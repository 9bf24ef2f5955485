"use strict";
// What each dot of a chart is, where the pointer rests.
(() => {
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
    const lines = [series.shown[i], series.kinds[series.kind[i]]];
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
      const left = Math.min(event.pageX + 14, document.documentElement.clientWidth - tip.offsetWidth - 8);
      tip.style.left = `${left}px`;
      tip.style.top = `${event.pageY + 14}px`;
    });
    chart.addEventListener("pointerleave", () => { tip.hidden = true; });
  }
})();

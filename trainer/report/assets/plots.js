"use strict";
// Draws plots when they come into view. A page that a report server sent asks it for news and draws them again.
(() => {
  const read = (page) => JSON.parse(page.getElementById("figures-data").textContent);
  let figures = read(document);
  const drawn = new Set();
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const draw = (place) => {
    const figure = figures[Number(place.dataset.figure)];
    const axis = { exponentformat: "power", automargin: true, gridcolor: "rgba(128,128,128,.2)", zerolinecolor: "rgba(128,128,128,.35)" };
    const layout = {
      margin: { l: 55, r: 10, t: 8, b: 42 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--soft"), size: 11 }, hovermode: "x unified", hoverlabel: { bgcolor: colour("--ground") },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, showlegend: figure.data.filter((trace) => trace.showlegend !== false).length > 1,
      ...figure.layout,
    };
    layout.xaxis = { ...axis, ...(figure.layout.xaxis || {}) };
    layout.yaxis = { ...axis, ...(figure.layout.yaxis || {}) };
    Plotly.react(place, figure.data, layout, { responsive: true, displayModeBar: false });
    drawn.add(place);
  };
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
    }
  }, { rootMargin: "300px" });
  document.querySelectorAll(".plot").forEach((place) => seen.observe(place));

  const titles = (some) => JSON.stringify(some.map((figure) => figure.title));
  async function refresh() {
    const state = await (await fetch("state", { cache: "no-store" })).text();
    if (state === document.body.dataset.live) return;
    const text = await (await fetch("./", { cache: "no-store" })).text();
    const page = new DOMParser().parseFromString(text, "text/html");
    const fresh = read(page);
    if (titles(fresh) !== titles(figures)) { location.reload(); return; }
    figures = fresh;
    document.body.dataset.live = state;
    for (const name of [".about", ".tiles", "#evaluations", "#runs", "#iterations"]) {
      document.querySelector(name)?.replaceChildren(...(page.querySelector(name)?.childNodes || []));
    }
    drawn.forEach(draw);
    document.querySelector("#reload")?.removeAttribute("hidden");
  }
  if (document.body.dataset.live) {
    const note = document.getElementById("news");
    setInterval(() => refresh().then(
      () => { note.textContent = `live, looked ${new Date().toLocaleTimeString()}`; },
      () => { note.textContent = "the report server does not answer"; }), 5000);
    document.querySelector("#reload")?.addEventListener("click", () => location.reload());
  }
})();

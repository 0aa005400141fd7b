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
      uirevision: "kept",  // the zoom stays when the figures are drawn again
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
  class Refusal extends Error {}
  async function asked(path) {
    const answer = await fetch(path, { cache: "no-store" });
    const text = await answer.text();
    if (!answer.ok) throw new Refusal(text);
    return text;
  }
  async function refresh() {
    const state = await asked("state");
    if (state === document.body.dataset.live) return;
    const text = await asked("./");
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
    async function look() {
      if (!document.hidden) {
        try {
          await refresh();
          note.textContent = `live, looked ${new Date().toLocaleTimeString()}`;
        } catch (error) {
          note.textContent = error instanceof Refusal ? error.message : "the report server does not answer";
        }
      }
      setTimeout(look, 5000);  // after an answer, which may take long: no two looks at a time
    }
    setTimeout(look, 5000);
    document.querySelector("#reload")?.addEventListener("click", () => location.reload());
  }
})();

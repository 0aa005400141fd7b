"use strict";
// Plots are drawn when they come into view; of the episodes, the list is rows and one conversation at a time.
// Whatever models and sandboxes wrote goes into the page as text, never as HTML.
(() => {
  const read = (id) => JSON.parse(document.getElementById(id).textContent);
  const figures = read("figures-data");
  const episodes = read("episodes-data");
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const draw = (place) => {
    const figure = figures[Number(place.dataset.figure)];
    const axis = { exponentformat: "power", gridcolor: "rgba(128,128,128,.2)", zerolinecolor: "rgba(128,128,128,.35)" };
    const layout = {
      margin: { l: 55, r: 10, t: 8, b: 32 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { color: colour("--soft"), size: 11 }, hovermode: "x unified", hoverlabel: { bgcolor: colour("--ground") },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0 }, showlegend: figure.data.filter((trace) => trace.showlegend !== false).length > 1,
      ...figure.layout,
    };
    layout.xaxis = { ...axis, ...(figure.layout.xaxis || {}) };
    layout.yaxis = { ...axis, ...(figure.layout.yaxis || {}) };
    Plotly.newPlot(place, figure.data, layout, { responsive: true, displayModeBar: false });
  };
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.isIntersecting) { seen.unobserve(entry.target); draw(entry.target); }
    }
  }, { rootMargin: "300px" });
  document.querySelectorAll(".plot").forEach((place) => seen.observe(place));

  const make = (tag, name, text) => {
    const element = document.createElement(tag);
    if (name) element.className = name;
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const outcome = (episode) => (episode.failure ? "no verdict" : episode.success ? "solved" : "missed");
  const markOf = (episode) => ({ "no verdict": "failed", solved: "solved", missed: "missed" })[outcome(episode)];
  const stepOf = (episode) => (episode.step === null ? "not trained on" : String(episode.step));
  const control = (name) => document.getElementById(`filter-${name}`);
  const filters = { step: stepOf, outcome, difficulty: (one) => one.difficulty || "none", stop: (one) => one.stop };

  const offer = (name, valueOf) => {
    const values = [...new Set(episodes.map(valueOf))];
    values.sort((one, other) => one.localeCompare(other, undefined, { numeric: true }));
    control(name).append(new Option("all", ""), ...values.map((value) => new Option(value, value)));
    control(name).addEventListener("change", list);
  };
  const words = new Map();
  const wordsOf = (episode) => {
    if (!words.has(episode)) {
      words.set(episode, `${episode.id} ${episode.task}\n${episode.lines.map((said) => said[1]).join("\n")}`.toLowerCase());
    }
    return words.get(episode);
  };
  const orders = {
    "reward-down": (one, other) => other.reward - one.reward,
    "reward-up": (one, other) => one.reward - other.reward,
    tokens: (one, other) => other.tokens - one.tokens,
  };

  function chosen() {
    const text = control("text").value.trim().toLowerCase();
    const found = episodes.filter((episode) =>
      Object.entries(filters).every(([name, valueOf]) => !control(name).value || control(name).value === valueOf(episode))
      && (!text || wordsOf(episode).includes(text)));
    const order = orders[control("sort").value];
    return order ? [...found].sort(order) : found;
  }

  function list() {
    const found = chosen();
    const rows = found.map((episode) => {
      const row = make("li");
      row.append(make("span", `mark ${markOf(episode)}`), `${episode.id} · step ${stepOf(episode)} · reward ${episode.reward}`);
      row.append(make("small", "", episode.task));
      row.addEventListener("click", () => show(episode, row));
      return row;
    });
    document.getElementById("list").replaceChildren(...rows);
    document.getElementById("count").textContent = `${found.length} of ${episodes.length}`;
    if (found.length) show(found[0], rows[0]);
    else document.getElementById("episode").replaceChildren();
  }

  const facts = (pairs) => {
    const box = make("div", "facts");
    for (const [name, value] of pairs) {
      if (value === null || value === undefined || value === "") continue;
      const fact = make("span", "fact", `${name} `);
      fact.append(make("b", "", String(value)));
      box.append(fact);
    }
    return box;
  };
  const termsOf = (terms) => Object.entries(terms);

  function turnFacts(turn) {
    return facts([
      ["tokens", turn.tokens], ["mean log-probability", turn.logprob], ["weights", turn.versions.join(", ")],
      ["reward", turn.reward], ...termsOf(turn.terms), ["cut off", turn.cut ? "yes" : ""],
      ["sampling", `${turn.sampling} s`], ["sandbox", `${turn.sandbox} s`],
    ]);
  }

  function show(episode, row) {
    document.querySelectorAll("#list .chosen").forEach((other) => other.classList.remove("chosen"));
    row.classList.add("chosen");
    const page = document.getElementById("episode");
    const head = make("h3");
    head.append(make("span", `mark ${markOf(episode)}`), `${outcome(episode)}: ${episode.task}`);
    page.replaceChildren(head, facts([
      ["episode", episode.id], ["step", stepOf(episode)], ["split", episode.split], ["difficulty", episode.difficulty],
      ["ended by", episode.stop], ["score", episode.score], ["weight in the loss", episode.weight],
      ["attempts", episode.attempts], ["tokens", episode.tokens], ["sampled", episode.sampled],
      ["segments", episode.segments], ["drifted turns", episode.drifted],
      ...Object.entries(episode.seconds).map(([name, seconds]) => [name, `${seconds} s`]),
    ]), facts([["reward", episode.reward], ...termsOf(episode.terms)]));
    if (episode.failure) {
      const { class: kind, code, phase, detail } = episode.failure;
      page.append(make("p", "failure", `${kind} (${code}) in ${phase}: ${detail}`));
    }
    let turn = 0;
    for (const [role, text] of episode.lines) {
      const said = make("div", `said ${role}`);
      said.append(make("div", "who", role), make("pre", "", text));
      if (role === "assistant" && turn < episode.turns.length) said.append(turnFacts(episode.turns[turn++]));
      page.append(said);
    }
    for (; turn < episode.turns.length; turn += 1) page.append(turnFacts(episode.turns[turn]));
    page.scrollTop = 0;
  }

  document.getElementById("list").addEventListener("keydown", (event) => {
    const next = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
    const row = next && document.querySelector("#list .chosen")?.[next];
    if (!row) return;
    event.preventDefault();
    row.click();
    row.scrollIntoView({ block: "nearest" });
  });
  for (const [name, valueOf] of Object.entries(filters)) offer(name, valueOf);
  control("sort").addEventListener("change", list);
  let waiting = 0;
  control("text").addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(list, 150);
  });
  list();
})();

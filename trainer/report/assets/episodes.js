"use strict";
// The viewer of episodes: the list is rows and one conversation at a time, or those of a group side by side.
// Whatever models and sandboxes wrote goes into the page as text, never as HTML.
(() => {
  const episodes = JSON.parse(document.getElementById("episodes-data").textContent);
  let together = false;

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
      words.set(episode, `${episode.id} ${episode.task}\n${episode.lines.map((said) => JSON.stringify(said[1])).join("\n")}`.toLowerCase());
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
      row.append(make("span", `mark ${markOf(episode)}`), `${episode.id} · step ${stepOf(episode)} · reward ${episode.reward ?? "not finite"}`);
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

  const labelled = (kind, label, text) => {
    const box = make("div", kind);
    box.append(make("div", "label", label), make("pre", "", text));
    return box;
  };
  function part(said) {
    if ("code" in said) return labelled("code", said.language || "code", said.code);
    if (!("call" in said)) return make("pre", "", said.text);
    const box = make("div", "call");
    box.append(make("div", "label", `calls ${said.call}`));
    for (const [name, value] of said.arguments) box.append(labelled("argument", name, value));
    return box;
  }

  function conversation(episode) {
    const page = make("section", "conversation");
    const head = make("h3");
    head.append(make("span", `mark ${markOf(episode)}`), `${outcome(episode)}: ${episode.task}`);
    page.append(head, facts([["reward", episode.reward], ...termsOf(episode.terms), ["score", episode.score]]), facts([
      ["episode", episode.id], ["step", stepOf(episode)], ["split", episode.split], ["difficulty", episode.difficulty],
      ["ended by", episode.stop], ["weight in the loss", episode.weight],
      ["attempts", episode.attempts], ["tokens", episode.tokens], ["sampled", episode.sampled],
      ["segments", episode.segments], ["drifted turns", episode.drifted],
      ...Object.entries(episode.seconds).map(([name, seconds]) => [name, `${seconds} s`]),
    ]));
    if (episode.failure) {
      const { class: kind, code, phase, detail } = episode.failure;
      page.append(make("p", "failure", `${kind} (${code}) in ${phase}: ${detail}`));
    }
    const turns = new Map(episode.turns.map((turn) => [turn.line, turn]));
    for (const [place, [role, parts]] of episode.lines.entries()) {
      const said = make(role === "system" ? "details" : "div", `said ${role}`);
      said.append(make(role === "system" ? "summary" : "div", "who", role), ...parts.map(part));
      if (turns.has(place)) said.append(turnFacts(turns.get(place)));
      page.append(said);
    }
    return page;
  }

  function show(episode, row) {
    document.querySelectorAll("#list .chosen").forEach((other) => other.classList.remove("chosen"));
    row.classList.add("chosen");
    const siblings = episodes.filter((other) => other.group === episode.group);
    const button = make("button", "", together ? "this episode alone" : `all ${siblings.length} of its group, side by side`);
    button.addEventListener("click", () => { together = !together; show(episode, row); });
    const columns = make("div", together ? "columns" : "");
    columns.append(...(together ? siblings : [episode]).map((each) => {
      const column = conversation(each);
      if (together && each === episode) column.classList.add("chosen");
      return column;
    }));
    const page = document.getElementById("episode");
    page.replaceChildren(...(siblings.length > 1 ? [button] : []), columns);
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

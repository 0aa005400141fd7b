"use strict";
// The console's only script: pages renew themselves in place, and keys step through an episode.
// Text from the server stays text: nodes of the new page are adopted, and no string becomes HTML.
(() => {
  const same = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id || "") === (other.id || "");

  // Makes a node like another and keeps what is alike, so that focus, scrolling and selection stay.
  function renew(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    const wanted = [...fresh.childNodes];
    const kept = [...old.childNodes];
    wanted.forEach((node, place) => {
      if (place >= kept.length) old.append(document.importNode(node, true));
      else if (same(kept[place], node)) renew(kept[place], node);
      else kept[place].replaceWith(document.importNode(node, true));
    });
    kept.slice(wanted.length).forEach((node) => node.remove());
  }

  const every = Number(document.body.dataset.refresh || 0);
  const news = document.getElementById("news");
  let failing = false;
  async function refresh() {
    // A list of which something is ticked stays as it is: the ticks would stand beside other rows.
    if (document.hidden || document.querySelector("#main input[type=checkbox]:is(:checked, :focus)")) return;
    const answer = await fetch(location.href, { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (answer.status === 401) { location.reload(); return; }
    if (!answer.ok) throw new Error(String(answer.status));
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    renew(document.getElementById("main"), page.getElementById("main"));
    linked();
  }
  function again() {
    setTimeout(() => refresh().then(
      () => { if (failing) news.textContent = ""; failing = false; },
      () => { if (!failing) news.textContent = "the service does not answer"; failing = true; }).finally(again), every * 1000);
  }
  if (every) again();

  const steps = () => [...document.querySelectorAll(".step")];
  function go(by) {
    const all = steps();
    const at = all.findIndex((step) => step.classList.contains("chosen"));
    const next = all[Math.min(all.length - 1, Math.max(0, at + by))];
    if (next) choose(next, true);
  }
  function choose(step, move) {
    document.querySelectorAll(".step.chosen").forEach((other) => { other.classList.remove("chosen"); other.removeAttribute("aria-current"); });
    step.classList.add("chosen");
    step.setAttribute("aria-current", "step");
    if (!move) return;
    history.replaceState(null, "", `#${step.id}`);
    step.focus({ preventScroll: true });
    step.scrollIntoView({ block: "start" });
  }
  function linked() {
    const step = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (step?.classList.contains("step")) choose(step, false);
  }
  if (document.body.hasAttribute("data-player")) {
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
      const by = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1 }[event.key];
      if (!by) return;
      event.preventDefault();
      go(by);
    });
    addEventListener("hashchange", linked);
    linked();
  }
})();

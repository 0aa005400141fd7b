"use strict";
// The console's only script: pages renew themselves in place, live episodes grow, and keys step through them.
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

  const main = document.getElementById("main");
  const news = document.getElementById("news");

  // Calls every so many seconds while the page is visible, until the call answers that it was the last.
  function repeat(call, seconds) {
    let pause = seconds;
    async function run() {
      if (document.hidden) { addEventListener("visibilitychange", run, { once: true }); return; }
      let more = true;
      try {
        more = await call();
        if (pause !== seconds) news.textContent = "";
        pause = seconds;
      } catch {
        if (pause === seconds) news.textContent = "the service does not answer";
        pause = Math.min(2 * pause, 60);
      }
      if (more) setTimeout(run, pause * 1000);
    }
    setTimeout(run, seconds * 1000);
  }

  // The document at an address; null if it has none to send.
  async function load(url) {
    const answer = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (answer.status === 401) { location.reload(); return null; }
    if (!answer.ok) throw new Error(String(answer.status));
    return answer.status === 204 ? null : new DOMParser().parseFromString(await answer.text(), "text/html");
  }

  async function refresh() {
    // A list of which something is ticked stays as it is: the ticks would stand beside other rows.
    if (document.querySelector("#main input[type=checkbox]:is(:checked, :focus)")) return true;
    const page = await load(location.href);
    if (page) renew(main, page.getElementById("main"));
    return true;
  }
  const every = Number(document.body.dataset.refresh || 0);
  if (every) repeat(refresh, every);

  // Adds the steps that a live episode has taken since. Those that are there stay where they are.
  async function follow() {
    const list = document.getElementById("steps");
    const page = await load(list.dataset.tail);
    if (!page) return true;
    const focused = document.activeElement;
    for (const step of page.querySelectorAll(".step")) {
      const known = document.getElementById(step.id);
      if (known) renew(known, step);
      else list.append(document.importNode(step, true));
    }
    for (const id of ["facts", "links", "later", "latest"]) renew(document.getElementById(id), page.getElementById(id));
    linked();
    if (!focused.isConnected) main.focus({ preventScroll: true });
    // In one piece, so that it is read out once.
    document.getElementById("arrivals").textContent = page.getElementById("arrivals").textContent;
    const next = page.getElementById("steps").dataset.tail;
    if (next) list.dataset.tail = next;
    else delete list.dataset.tail;
    return Boolean(next);
  }
  if (document.querySelector("#steps[data-tail]")) repeat(follow, 2);

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

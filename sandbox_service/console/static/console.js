"use strict";
// The console's only script: pages renew themselves in place, live episodes grow, and keys step through them.
// Text from the server stays text: nodes of the new page are adopted, and no string becomes HTML.
(() => {
  const same = (one, other) => one.nodeType === other.nodeType && one.nodeName === other.nodeName && (one.id || "") === (other.id || "");

  // Makes a node like another and keeps what is alike, so that focus, scrolling and selection stay. Children with
  // an id, such as the rows of a list, are found again wherever they are now; the others by their place.
  function renew(old, fresh) {
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    for (const { name } of [...old.attributes]) if (!fresh.hasAttribute(name) && name !== "open") old.removeAttribute(name);
    for (const { name, value } of fresh.attributes) if (name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
    const wanted = [...fresh.childNodes];
    const ids = new Set(wanted.map((node) => node.id).filter(Boolean));
    // What is gone leaves first, so that what stays need not move: moving takes the focus away.
    for (const child of [...old.children]) if (child.id && !ids.has(child.id)) child.remove();
    const known = new Map([...old.children].filter((child) => child.id).map((child) => [child.id, child]));
    let at = old.firstChild;
    function skip() {
      const passed = at;
      at = at.nextSibling;
      return passed;
    }
    for (const node of wanted) {
      const named = known.get(node.id);
      if (named) while (at && at !== named && !at.id) skip().remove();
      const kept = named || (at && !at.id && same(at, node) ? at : null);
      if (!kept || !same(kept, node)) old.insertBefore(document.importNode(node, true), at);
      else {
        if (kept === at) skip();
        else old.insertBefore(kept, at);
        renew(kept, node);
      }
    }
    while (at) skip().remove();
  }

  // Renews the page's content. The focus stays where it was, also on a row that had to move, if that is still there.
  function show(page) {
    const focused = document.activeElement;
    renew(main, page.getElementById("main"));
    if (!focused.isConnected) main.focus({ preventScroll: true });
    else if (document.activeElement !== focused) focused.focus({ preventScroll: true });
  }

  const main = document.getElementById("main");
  const news = document.getElementById("news");

  // Calls every so many seconds while the page is visible, until the call answers that it was the last.
  function repeat(call, seconds) {
    let pause = seconds;
    async function run() {
      if (document.hidden) { addEventListener("visibilitychange", run, { once: true }); return; }
      let more = true;
      let problem = "";
      try {
        more = await call();
        pause = seconds;
      } catch (error) {
        problem = error instanceof Refused ? error.message : "the service does not answer";
        pause = Math.max(Math.min(2 * pause, 60), error.retryAfter || 0);
      }
      // Only news is read out.
      if (news.textContent !== problem) news.textContent = problem;
      if (more) setTimeout(run, pause * 1000);
    }
    setTimeout(run, seconds * 1000);
  }

  // An answer that says why the page cannot be renewed.
  class Refused extends Error {
    constructor(answer) {
      const reasons = { 403: "you may no longer see this page", 404: "what this page shows is gone", 429: "too many requests; this page is renewed more slowly" };
      super(reasons[answer.status] || `the page cannot be renewed (HTTP ${answer.status})`);
      this.retryAfter = Number(answer.headers.get("retry-after")) || 0;
    }
  }

  // The document at an address; null if it has none to send.
  async function load(url) {
    const answer = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(10000) });
    if (answer.status === 401) { location.reload(); return null; }
    if (answer.status >= 500) throw new Error(String(answer.status));
    if (!answer.ok) throw new Refused(answer);
    return answer.status === 204 ? null : new DOMParser().parseFromString(await answer.text(), "text/html");
  }

  async function refresh() {
    // A list of which something is ticked stays as it is: a ticked row may be among those that leave.
    const ticked = () => document.querySelector("#main input[type=checkbox]:is(:checked, :focus)");
    if (ticked()) return true;
    const page = await load(location.href);
    if (page && !ticked()) show(page);
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

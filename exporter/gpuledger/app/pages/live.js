// Keeps the page current: fetches it again and changes in place what differs, so that scroll, focus and selection stay.
"use strict";
(() => {
  const PERIOD = 2000, PATIENCE = 5000;
  const main = document.querySelector("main"), state = document.getElementById("state");
  const sorted = new Map(); // by kind of table: {column, descending}
  let answered = Date.now();

  const filter = document.createElement("input");
  filter.type = "search";
  filter.placeholder = "Filter: namespace, pod, GPU …  (/)";
  filter.setAttribute("aria-label", "Filter rows");
  document.querySelector("header").append(filter);

  function morph(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName) return old.replaceWith(fresh);
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.data !== fresh.data) old.data = fresh.data;
      return;
    }
    if (old.nodeName === "THEAD" && old.textContent === fresh.textContent) return;
    for (const {name} of [...old.attributes]) if (!fresh.hasAttribute(name)) old.removeAttribute(name);
    for (const {name, value} of fresh.attributes) if (old.getAttribute(name) !== value) old.setAttribute(name, value);
    const before = [...old.childNodes], after = [...fresh.childNodes];
    after.forEach((node, index) => (index < before.length ? morph(before[index], node) : old.append(node)));
    before.slice(after.length).forEach((node) => node.remove());
  }

  function key(row, column) {
    const cell = row.cells[column], sort = cell.dataset.sort;
    return sort === undefined ? cell.textContent : sort === "" ? null : Number(sort);
  }

  function compare(a, b) {
    if (a === null || b === null) return 0;
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, {numeric: true});
  }

  function sort(table) {
    const by = sorted.get(table.dataset.kind), heads = table.tHead.rows[0].cells;
    [...heads].forEach((head, column) => {
      head.tabIndex = 0;
      if (by && by.column === column) head.setAttribute("aria-sort", by.descending ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    if (!by) return;
    const sign = by.descending ? -1 : 1, body = table.tBodies[0];
    const unknownLast = (a, b) => (a === null) - (b === null);
    const rows = [...body.rows].map((row) => [key(row, by.column), row]);
    rows.sort(([a], [b]) => unknownLast(a, b) || sign * compare(a, b));
    body.append(...rows.map(([, row]) => row));
  }

  function arrange() {
    const words = filter.value.toLowerCase().match(/gpu \d+|\S+/g) ?? []; // "gpu 1" is one word, and not GPU 10
    const has = (text, word) => (word.startsWith("gpu ") ? `${text} `.includes(`${word} `) : text.includes(word));
    const matches = (text) => words.every((word) => has(text, word));
    const spaced = (row) => [...row.cells].map((cell) => cell.textContent).join(" ");
    for (const section of main.querySelectorAll("section")) {
      const table = section.querySelector("table");
      const heading = section.querySelector("h2").textContent.toLowerCase();
      if (table) sort(table);
      const rows = table ? [...table.tBodies[0].rows] : [];
      for (const row of rows) {
        const first = table.tHead.rows[0].cells[0].textContent;
        row.hidden = !matches(`${heading} ${first} ${spaced(row)}`.toLowerCase());
      }
      section.hidden = words.length > 0 && !rows.some((row) => !row.hidden) && !matches(heading);
    }
  }

  function chosen(head) {
    const kind = head.closest("table").dataset.kind, by = sorted.get(kind);
    const first = head.classList.contains("n"); // of numbers the largest are looked for
    if (!by || by.column !== head.cellIndex) sorted.set(kind, {column: head.cellIndex, descending: first});
    else if (by.descending === first) by.descending = !first;
    else {
      sorted.delete(kind);
      refresh(); // brings the order back
    }
    arrange();
  }

  function show(away) {
    document.body.classList.toggle("away", away);
    const ago = Math.round((Date.now() - answered) / 1000);
    const text = away ? `no answer for ${ago} s; this is what was known then` : "live";
    if (state.textContent !== text) state.textContent = text;
  }

  async function refresh() {
    try {
      const reply = await fetch(location.pathname, {cache: "no-store", signal: AbortSignal.timeout(PATIENCE)});
      if (!reply.ok) throw new Error(reply.statusText);
      morph(main, new DOMParser().parseFromString(await reply.text(), "text/html").querySelector("main"));
      answered = Date.now();
      arrange();
      show(false);
    } catch {
      show(true);
    }
  }

  async function live() {
    if (!document.hidden) await refresh();
    setTimeout(live, PERIOD);
  }

  main.addEventListener("click", ({target}) => target.closest("th") && chosen(target.closest("th")));
  main.addEventListener("keydown", (event) => {
    if (event.target.nodeName !== "TH" || (event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    chosen(event.target);
  });
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && event.target !== filter) {
      event.preventDefault();
      filter.focus();
    }
  });
  filter.addEventListener("input", arrange);
  arrange();
  show(false);
  setTimeout(live, PERIOD);
})();

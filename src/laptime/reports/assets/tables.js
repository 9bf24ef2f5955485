"use strict";
// Tables that sort, search and fold, and links that find their row. Without this, everything is shown.
(() => {
  const FIRST = 25;
  const make = (tag, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(tag), properties);
    element.append(...children);
    return element;
  };
  const number = (text) => {
    const value = parseFloat(text.replaceAll(",", "").replace(/[<>]/, ""));
    return Number.isNaN(value) ? null : /^[<>]/.test(text) ? value / 2 : value;
  };

  class Grid {
    constructor(element) {
      this.element = element;
      this.body = element.querySelector("tbody");
      this.rows = [...this.body.rows].map((row, index) => ({
        row, index, text: row.textContent.toLowerCase(), depth: Number(row.dataset.depth || 0), parent: null, open: true,
      }));
      this.tree = element.classList.contains("tree");
      this.query = "";
      this.all = this.rows.length <= FIRST + 10;
      if (this.tree) this.plant();
      if (this.rows.length > 8) this.searchable();
      if (this.rows.length > 1) this.sortable();
      this.more = make("button", { type: "button", className: "more", hidden: true });
      this.more.addEventListener("click", () => { this.all = !this.all; this.show(); });
      element.append(this.more);
      this.show();
    }

    plant() {
      const above = [];
      for (const line of this.rows) {
        above.length = line.depth;
        line.parent = above[line.depth - 1] || null;
        above[line.depth] = line;
      }
      const parents = new Set(this.rows.map((line) => line.parent));
      for (const line of this.rows.filter((other) => parents.has(other))) {
        line.open = line.depth < 2;
        line.fold = make("button", { type: "button", className: "fold" });
        line.fold.addEventListener("click", () => { line.open = !line.open; this.show(); });
        line.row.cells[0].prepend(line.fold);
      }
      this.all = true;
    }

    searchable() {
      const box = make("input", { type: "search", placeholder: `search ${this.rows.length} rows` });
      box.setAttribute("aria-label", "search this table");
      this.count = make("span", { className: "quiet" });
      this.count.setAttribute("role", "status");
      box.addEventListener("input", () => { this.query = box.value.trim().toLowerCase(); this.show(); });
      this.box = box;
      const tools = this.tools = make("div", { className: "tools" }, box, this.count);
      if (this.tree) {
        for (const [text, open] of [["open all", true], ["fold all", false]]) {
          const button = make("button", { type: "button", textContent: text });
          button.addEventListener("click", () => { for (const line of this.rows) line.open = open; this.show(); });
          tools.append(button);
        }
      }
      this.element.querySelector(".wide").before(tools);
    }

    sortable() {
      this.heads = [...this.element.querySelectorAll("th")];
      this.heads.forEach((head, column) => {
        head.classList.add("sort");
        head.tabIndex = 0;
        head.addEventListener("click", () => this.sort(column));
        head.addEventListener("keydown", (event) => { if (event.key === "Enter") this.sort(column); });
      });
    }

    sort(column) {
      const head = this.heads[column];
      const words = head.classList.contains("l") || head.classList.contains("left");
      const was = head.getAttribute("aria-sort");
      const down = was ? was === "ascending" : !words;
      for (const other of this.heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const key = (line) => {
        const cell = line.row.cells[column], text = cell.textContent.trim();
        return words ? text : "value" in cell.dataset ? Number(cell.dataset.value) : number(text);
      };
      const keys = new Map(this.rows.map((line) => [line, key(line)]));
      const before = (a, b) => {
        const [x, y] = [keys.get(a), keys.get(b)];
        if (x === null || y === null) return (x === null) - (y === null) || a.index - b.index;
        const order = words ? x.localeCompare(y, undefined, { numeric: true }) : x - y;
        return (down ? -order : order) || a.index - b.index;
      };
      if (this.tree) {
        const sorted = [];
        const add = (parent) => {
          for (const line of this.rows.filter((other) => other.parent === parent).sort(before)) { sorted.push(line); add(line); }
        };
        add(null);
        this.rows = sorted;
      } else this.rows.sort(before);
      this.body.append(...this.rows.map((line) => line.row));
      this.show();
    }

    show() {
      const matches = new Set();
      for (const line of this.rows) {
        if (!line.text.includes(this.query)) continue;
        for (let up = line; up && !matches.has(up); up = up.parent) matches.add(up);
      }
      let shown = 0;
      for (const line of this.rows) {
        let visible = matches.has(line);
        if (!this.query) for (let up = line.parent; up; up = up.parent) visible &&= up.open;
        if (visible) shown += 1;
        line.row.hidden = !visible || (!this.all && shown > FIRST);
        if (line.fold) {
          line.fold.textContent = line.open || this.query ? "▾" : "▸";
          line.fold.setAttribute("aria-expanded", String(line.open));
          line.fold.setAttribute("aria-label", line.open ? "fold" : "open");
        }
      }
      if (this.count) this.count.textContent = this.query ? `${shown} found` : "";
      this.more.hidden = this.tree || shown <= FIRST || this.rows.length <= FIRST + 10;
      this.more.textContent = this.all ? `show the first ${FIRST}` : `show all ${shown}`;
    }

    reveal(row) {
      if (this.box) this.box.value = "";
      this.query = "";
      const line = this.rows.find((other) => other.row === row);
      for (let up = line && line.parent; up; up = up.parent) up.open = true;
      this.show();
      if (row.hidden) { this.all = true; this.show(); }
    }
  }

  const grids = new Map();
  for (const element of document.querySelectorAll(".sheet")) grids.set(element, new Grid(element));

  // Several views of one thing: one at a time.
  const choose = new Map();
  for (const views of document.querySelectorAll(".views")) {
    const sheets = [...views.children];
    const buttons = sheets.map((view) => make("button", { type: "button", textContent: view.dataset.title }));
    const pick = (chosen) => sheets.forEach((view, index) => {
      view.hidden = view !== chosen;
      buttons[index].setAttribute("aria-pressed", String(view === chosen));
      const tools = grids.get(view).tools;
      if (tools) tools.hidden = view !== chosen;
    });
    buttons.forEach((button, index) => button.addEventListener("click", () => pick(sheets[index])));
    sheets.forEach((view) => { choose.set(view, pick); view.querySelector("h4").hidden = true; });
    const tools = sheets.map((view) => view.querySelector(".tools")).filter(Boolean);
    views.before(make("div", { className: "tools" }, make("span", { className: "switch" }, ...buttons), ...tools));
    pick(sheets[0]);
  }

  // The full name of a row is in its details; here also where the pointer rests.
  document.addEventListener("pointerover", (event) => {
    const summary = event.target.closest(".rows summary"), full = summary && summary.nextElementSibling;
    if (full && full.matches("p:not(.caption)")) summary.title = full.textContent;
  });

  const reveal = (id) => {
    const target = id && document.getElementById(id);
    const grid = target && target.closest(".sheet");
    if (!grid) return;
    if (choose.has(grid)) choose.get(grid)(grid);
    if (target.tagName !== "TR") return;
    grids.get(grid).reveal(target);
    target.scrollIntoView({ block: "center", behavior: "instant" });
    document.querySelectorAll(".flash").forEach((row) => row.classList.remove("flash"));
    target.classList.add("flash");
  };
  const follow = () => reveal(decodeURIComponent(location.hash.slice(1)));
  addEventListener("hashchange", follow);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) follow();
  });
  follow();

  const links = new Map([...document.querySelectorAll(".top nav a")].map((link) => [link.hash.slice(1), link]));
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      for (const link of links.values()) link.classList.remove("here");
      links.get(entry.target.id).classList.add("here");
    }
  }, { rootMargin: "-12% 0px -80% 0px" });
  for (const id of links.keys()) if (document.getElementById(id)) observer.observe(document.getElementById(id));
})();

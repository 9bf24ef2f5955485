"use strict";
// What every page has: the choice of theme, a menu of sections without room, and buttons that copy a command.
(() => {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const button = document.getElementById("theme");
  const stored = () => { try { return localStorage.getItem("laptime-theme"); } catch { return null; } };
  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : dark.matches);
  const name = () => { button.textContent = isDark() ? "light" : "dark"; };
  if (["light", "dark"].includes(stored())) root.dataset.theme = stored();
  button.hidden = false;
  button.setAttribute("aria-label", "switch between light and dark");
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    try { localStorage.setItem("laptime-theme", root.dataset.theme); } catch { /* a file may have no storage */ }
    name();
  });
  dark.addEventListener("change", name);
  name();

  const nav = document.querySelector(".top nav"), links = [...nav.children];
  const menu = document.createElement("details"), panel = document.createElement("div");
  const summary = Object.assign(document.createElement("summary"), { textContent: "more" });
  menu.className = "menu";
  menu.append(summary, panel);
  const fold = () => {
    menu.open = false;
    menu.remove();
    nav.append(...links);
    nav.classList.add("folds");
    if (nav.scrollWidth <= nav.clientWidth) return;
    nav.append(menu);
    for (let at = links.length; at && nav.scrollWidth > nav.clientWidth; ) panel.prepend(links[--at]);
    summary.textContent = nav.firstElementChild === menu ? "sections" : "more";
  };
  new ResizeObserver(fold).observe(nav.parentElement);
  panel.addEventListener("click", () => { menu.open = false; });
  document.addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
  menu.addEventListener("keydown", (event) => { if (event.key === "Escape") { menu.open = false; summary.focus(); } });

  if (navigator.clipboard) {
    for (const copy of document.querySelectorAll(".copy")) {
      copy.hidden = false;
      copy.addEventListener("click", async () => {
        try {
          await navigator.clipboard.writeText(copy.previousElementSibling.textContent);
          copy.textContent = "copied";
        } catch { copy.textContent = "not allowed"; }
      });
    }
  }
})();

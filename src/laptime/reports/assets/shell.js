"use strict";
// What every page has: the choice of theme, and buttons that copy a command.
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

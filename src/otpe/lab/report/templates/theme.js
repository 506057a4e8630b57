"use strict";
// Light or dark: the system's choice, until the button is used. The page hears of a change by the event "themechange".
(() => {
  const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
  const changed = () => dispatchEvent(new Event("themechange"));
  try { root.dataset.theme = localStorage.getItem("theme") || ""; } catch { /* the browser stores nothing */ }
  document.getElementById("theme").addEventListener("click", () => {
    const theme = root.dataset.theme || (dark.matches ? "dark" : "light");
    root.dataset.theme = theme === "dark" ? "light" : "dark";
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* the browser stores nothing */ }
    changed();
  });
  dark.addEventListener("change", changed);
})();

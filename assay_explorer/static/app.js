// Theme, keys and open details. Every page is whole without this file.
"use strict";
(() => {
  const root = document.documentElement;
  const kept = (() => { try { return localStorage.getItem("theme"); } catch { return null; } })();
  if (kept === "light" || kept === "dark") root.dataset.theme = kept;

  const dark = () => root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;

  const name = (button) => { button.textContent = dark() ? "Light" : "Dark"; };

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.getElementById("theme");
    button.hidden = false;
    name(button);
    button.addEventListener("click", () => {
      root.dataset.theme = dark() ? "light" : "dark";
      try { localStorage.setItem("theme", root.dataset.theme); } catch { /* not kept */ }
      name(button);
    });
  });

  // Arrow keys scrub through a dispute; "n" goes back to now.
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
    if (event.target.closest && event.target.closest(".scroll")) return;
    const link = { ArrowLeft: "before", ArrowRight: "after" }[event.key];
    const found = link && document.getElementById(link);
    if (found) { event.preventDefault(); found.click(); }
  });

  // A page that is shown again keeps its open details, its focus, and where it was scrolled to.
  let open = [], focus = "";
  document.addEventListener("htmx:beforeSwap", () => {
    open = [...document.querySelectorAll("details[open][id]")].map((one) => one.id);
    focus = document.activeElement ? document.activeElement.id : "";
  });
  document.addEventListener("htmx:afterSwap", () => {
    for (const id of open) { const one = document.getElementById(id); if (one) one.open = true; }
    const one = focus && document.getElementById(focus);
    if (one) one.focus({ preventScroll: true });
  });
})();

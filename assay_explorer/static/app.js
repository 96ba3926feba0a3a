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

  // A command is copied whole; where a page may not write to the clipboard, it is selected.
  root.classList.add("script");
  document.addEventListener("click", async (event) => {
    const button = event.target.closest && event.target.closest(".copy");
    if (!button) return;
    const code = button.parentElement.querySelector("code");
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "Copied";
    } catch {
      getSelection().selectAllChildren(code);
      button.textContent = "Selected";
    }
  });

  // Each hash gets a button that copies it in full.
  const hashes = () => {
    for (const code of document.querySelectorAll("a.hash, code.hash")) {
      if (code.parentElement.className === "hashed") continue;
      const box = document.createElement("span"), button = document.createElement("button");
      box.className = "hashed";
      button.type = "button";
      button.className = "copyhash";
      button.setAttribute("aria-label", `Copy ${code.textContent}`);
      // A short hash is in full in its title, or at the end of its link.
      const full = /0x[0-9a-fA-F]{40,}$/.exec(code.href);
      button.addEventListener("click", async () => {
        try { await navigator.clipboard.writeText(code.title || (full && code.textContent.endsWith("…") ? full[0] : code.textContent)); button.textContent = "✓"; button.classList.add("copied"); }
        catch { getSelection().selectAllChildren(code); }
      });
      code.replaceWith(box);
      box.append(code, button);
    }
  };
  document.addEventListener("DOMContentLoaded", hashes);
  document.addEventListener("htmx:afterSwap", hashes);

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

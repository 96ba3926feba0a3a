// The whole graph: drawn on a canvas by cytoscape, from places that the server has computed (layers.py).
"use strict";
const draw = async () => {
  const box = document.querySelector("#graph:not(.begun)");
  if (!box) return;
  box.classList.add("begun");
  const data = box.dataset, picked = document.getElementById("picked"), MANY = 1500;
  const found = await fetch(data.source).then((answer) => answer.json()).catch(() => null);
  if (!found) { picked.textContent = "The graph could not be read."; return; }

  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  const many = found.edges.length > MANY;
  const style = () => [
    { selector: "node", style: {
      shape: "round-rectangle", width: 128, height: 46, label: "data(label)", color: colour("ink"), "font-size": 14,
      "text-valign": "center", "text-max-width": 120, "text-wrap": "ellipsis", "min-zoomed-font-size": 7,
      "background-color": colour("a-bg"), "border-color": colour("a"), "border-width": 2.5,
    } },
    { selector: "node.gradient", style: { "background-color": colour("b-bg"), "border-color": colour("b") } },
    { selector: "node.optimizer", style: { "background-color": colour("equal-bg"), "border-color": colour("equal") } },
    { selector: "node.beside", style: { "background-color": colour("card"), "border-style": "dashed" } },
    { selector: "node.hit", style: { "background-color": colour("open-bg"), "border-color": colour("open"), "border-width": 5 } },
    { selector: "node.disputed", style: { "background-color": colour("different"), color: colour("on-different") } },
    { selector: "node:selected", style: { "border-color": colour("link"), "border-width": 7 } },
    { selector: "edge", style: {
      width: 1.5, "line-color": colour("after"), opacity: many ? 0.35 : 0.6, "curve-style": many ? "haystack" : "straight",
      "target-arrow-shape": many ? "none" : "triangle", "target-arrow-color": colour("after"), events: "no",
    } },
    { selector: "edge.read", style: { "line-color": colour("a"), "target-arrow-color": colour("a"), width: 4, opacity: 1 } },
    { selector: "edge.reads", style: { "line-color": colour("b"), "target-arrow-color": colour("b"), width: 4, opacity: 1 } },
  ];
  const hits = new Set(data.hits.split(" "));
  const cy = window.cytoscape({
    container: box,
    elements: [
      ...found.nodes.map(([id, x, y, label, words, kind]) => ({
        data: { id: `${id}`, label, words }, position: { x, y },
        classes: [...kind.split(" "), hits.has(`${id}`) && "hit", data.disputed === `${id}` && "disputed"].filter(Boolean),
      })),
      ...found.edges.map(([source, target]) => ({ data: { id: `${source}-${target}`, source: `${source}`, target: `${target}` } })),
    ],
    layout: { name: "preset", fit: true, padding: 20 }, style: style(), minZoom: 0.005, maxZoom: 3,
    autoungrabify: true, boxSelectionEnabled: false, selectionType: "single",
    textureOnViewport: many, hideEdgesOnViewport: many, hideLabelsOnViewport: many,
  });
  // A small graph is not blown up to the width of the window.
  const all = () => { cy.fit(undefined, 20); if (cy.zoom() > 1) { cy.zoom(1); cy.center(); } };
  const near = (node) => { cy.zoom(Math.max(cy.zoom(), 0.8)); cy.center(node); };

  cy.on("select unselect", "node", () => {
    cy.edges().removeClass("read reads");
    const node = cy.$("node:selected");
    picked.replaceChildren();
    if (node.empty()) return;
    node.incomers("edge").addClass("read");
    node.outgoers("edge").addClass("reads");
    const link = document.createElement("a");
    link.href = data.open + node.id();
    link.textContent = node.data("label");
    picked.append(link, ` ${node.data("words")}. Arrows in this picture: ${node.indegree()} from what it reads, ${node.outdegree()} to what reads it.`);
  });
  cy.on("dbltap", "node", (event) => { location.href = data.open + event.target.id(); });

  const zoom = (times) => cy.zoom({ level: cy.zoom() * times, renderedPosition: { x: cy.width() / 2, y: cy.height() / 2 } });
  for (const [id, act] of [["nearer", () => zoom(1.5)], ["farther", () => zoom(1 / 1.5)], ["fit", all]])
    document.getElementById(id).addEventListener("click", act);
  const keys = {
    "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: all,
    ArrowLeft: () => cy.panBy({ x: 80, y: 0 }), ArrowRight: () => cy.panBy({ x: -80, y: 0 }),
    ArrowUp: () => cy.panBy({ x: 0, y: 80 }), ArrowDown: () => cy.panBy({ x: 0, y: -80 }),
  };
  box.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  const again = () => cy.style(style());
  document.getElementById("theme").addEventListener("click", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);

  cy.on("viewport", () => { data.view = [cy.zoom(), cy.pan().x, cy.pan().y].map((one) => one.toFixed(3)).join(" "); });
  all();
  const at = cy.getElementById(data.at), hit = cy.$("node.hit");
  if (data.at && at.nonempty()) { near(at); at.select(); } else if (hit.nonempty() && hit.length < 40) cy.fit(hit, 60);
  if (found.left_out) document.getElementById("view").append(` ${found.left_out.toLocaleString("en")} more of those are left out.`);
  box.classList.add("ready");
};
document.addEventListener("DOMContentLoaded", draw);
document.addEventListener("htmx:afterSwap", draw);

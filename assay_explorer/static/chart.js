// Charts: the values at a step, and smoothing. Every chart is whole without this file (curve.py).
"use strict";
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const kept = {}; // by the id of a control: where it stood, since a live page is made again

  const numbers = (text) => text.split(" ").map(Number);

  // "1 2*3 5*1": 1, then three times 2 more, then once 5 more.
  const steps = (text) => {
    const [first, ...gaps] = text.split(" "), found = [Number(first)];
    for (const gap of gaps) {
      const [by, times] = gap.split("*").map(Number);
      for (let k = 0; k < times; k++) found.push(found[found.length - 1] + by);
    }
    return found;
  };

  // An exponential moving average that does not begin at 0, as TensorBoard's.
  const smooth = (values, weight) => {
    let sum = 0, share = 0;
    return values.map((value) => {
      sum = weight * sum + (1 - weight) * value;
      share = weight * share + (1 - weight);
      return sum / share;
    });
  };

  const nearest = (sorted, wanted) => {
    let low = 0, high = sorted.length - 1;
    while (high - low > 1) { const k = (low + high) >> 1; if (sorted[k] <= wanted) low = k; else high = k; }
    return wanted - sorted[low] <= sorted[high] - wanted ? low : high;
  };

  const element = (name, attributes, parent) => {
    const made = name === "line" || name === "circle" || name === "polyline"
      ? document.createElementNS(SVG, name) : document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    parent.append(made);
    return made;
  };

  const slider = (bar, id, words, limits) => {
    const label = element("label", { for: id }, bar);
    label.textContent = words;
    const input = element("input", { id, type: "range", ...limits }, bar);
    if (kept[id] !== undefined) input.value = kept[id];
    return input;
  };

  const set_up = (figure, number) => {
    const drawing = figure.querySelector("svg"), last = Number(figure.dataset.last);
    const [left, top, right, bottom] = numbers(figure.dataset.frame), [low, high] = numbers(figure.dataset.range);
    const x = (step) => left + (right - left) * step / Math.max(1, last);
    const y = (value) => top + (bottom - top) * (1 - (value - low) / (high - low));
    const curves = [...drawing.querySelectorAll("polyline.curve")].map((line, k) => ({
      line, name: line.dataset.name, steps: steps(line.dataset.steps), values: numbers(line.dataset.values),
      smooth: element("polyline", { class: `curve curve${k}`, points: "" }, drawing),
      dot: element("circle", { class: `dot curve${k}`, r: 5, visibility: "hidden" }, drawing),
    }));
    const cursor = element("line", { class: "cursor", y1: top, y2: bottom, visibility: "hidden" }, drawing);
    const bar = element("div", { class: "chartbar" }, figure);
    const every = [...new Set(curves.flatMap((one) => one.steps))].sort((a, b) => a - b);
    const at = slider(bar, `chart${number}-step`, "Step", { min: 0, max: every.length - 1, step: 1 });
    const weight = slider(bar, `chart${number}-smooth`, "Smoothing", { min: 0, max: 0.99, step: 0.01 });
    if (kept[at.id] === undefined) at.value = at.max;
    if (kept[weight.id] === undefined) weight.value = 0;
    const told = element("output", { class: "reading", for: `${at.id} ${weight.id}` }, figure);

    const show = () => {
      const step = every[at.value], shown = [];
      for (const one of curves) {
        const k = nearest(one.steps, step), value = one.smoothed ? one.smoothed[k] : one.values[k];
        one.dot.setAttribute("cx", x(one.steps[k]));
        one.dot.setAttribute("cy", y(value));
        const exact = one.steps[k] === step ? "" : ` (after step ${one.steps[k].toLocaleString("en")})`;
        const raw = one.smoothed ? `, smoothed ${Number(value.toPrecision(6))}` : "";
        shown.push(`${one.name} ${one.values[k]}${raw}${exact}`);
      }
      cursor.setAttribute("x1", x(step));
      cursor.setAttribute("x2", x(step));
      told.textContent = `After step ${step.toLocaleString("en")}: ${shown.join(" · ")}`;
      at.setAttribute("aria-valuetext", told.textContent);
    };
    const reveal = () => {
      for (const one of [cursor, ...curves.map((curve) => curve.dot)]) one.removeAttribute("visibility");
    };
    const redraw = () => {
      const share = Number(weight.value);
      for (const one of curves) {
        one.smoothed = share ? smooth(one.values, share) : null;
        one.line.classList.toggle("raw", share > 0);
        const points = (one.smoothed || []).map((value, k) => `${x(one.steps[k]).toFixed(1)},${y(value).toFixed(1)}`);
        one.smooth.setAttribute("points", points.join(" "));
      }
      weight.setAttribute("aria-valuetext", share ? `${share}` : "none");
      show();
    };
    const point = (event) => {
      const box = drawing.getBoundingClientRect(), full = drawing.viewBox.baseVal.width;
      const step = ((event.clientX - box.left) * full / box.width - left) / (right - left) * last;
      at.value = nearest(every, step);
      kept[at.id] = at.value;
      reveal();
      show();
    };
    drawing.addEventListener("pointermove", point);
    drawing.addEventListener("pointerdown", point);
    at.addEventListener("input", () => { kept[at.id] = at.value; reveal(); show(); });
    weight.addEventListener("input", () => { kept[weight.id] = weight.value; redraw(); });
    if (kept[at.id] !== undefined) reveal();
    redraw();
  };

  const charts = () => document.querySelectorAll("figure.chart:not(.ready)").forEach((figure, number) => {
    figure.classList.add("ready");
    set_up(figure, number);
  });
  document.addEventListener("DOMContentLoaded", charts);
  document.addEventListener("htmx:afterSwap", charts);
})();

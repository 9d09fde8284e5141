"use strict";
// Interactive views. A view is an element with data-view="KIND" and its data as JSON in the script element inside;
// softcutViews.mount(element, kind, data) does the same for data that came later. Names are shown as text, never as HTML.
const softcutViews = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const kinds = {};

  function make(tag, attributes = {}, ...children) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
      else if (value !== null && value !== undefined) element.setAttribute(name, value);
    }
    element.append(...children);
    return element;
  }

  function draw(tag, attributes = {}, text = null) {
    const element = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
    if (text !== null) element.textContent = text;
    return element;
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  }

  // Canvas drawings are made anew when the width of the page or its colours change, and for paper.
  const painters = new Set();
  function redrawn(element, paint) {
    painters.add(paint);
    new ResizeObserver(paint).observe(element);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  }

  function sized(canvas, height) {
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth || 300;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    canvas.style.height = `${height}px`;
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    return [context, width, height];
  }

  function status() {
    return make("p", { class: "status", role: "status", "aria-live": "polite" });
  }

  // A button that switches something on and off; `changed` is told the new state.
  function chip(text, swatch, changed) {
    const button = make("button", { type: "button", class: "chip", "aria-pressed": "true" });
    if (swatch) {
      const dot = make("span", { class: "swatch" });
      dot.style.background = swatch;
      button.append(dot);
    }
    button.append(text);
    button.addEventListener("click", () => {
      const on = button.getAttribute("aria-pressed") !== "true";
      button.setAttribute("aria-pressed", String(on));
      changed(on);
    });
    return button;
  }

  function shown(value) {
    if (value === null || !Number.isFinite(value)) return "-";
    const size = Math.abs(value);
    if (size !== 0 && (size < 1e-6 || size >= 1e15)) return value.toExponential(2);
    // Four digits, as people write them: thousands set apart from 10,000 on, units kept below.
    const digits = size >= 1000 && size < 1e4 ? 0 : undefined;
    const style = digits === 0 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 4 };
    return value.toLocaleString("en", { ...style, useGrouping: size >= 1e4 });
  }

  function mount(element, kind, data) {
    element.replaceChildren();
    element.classList.add("view");
    kinds[kind](element, data);
  }

  function mountAll() {
    const waiting = new Map();
    const open = (element) => {
      const [data, observer] = waiting.get(element) || [];
      if (!observer) return;
      observer.disconnect();
      waiting.delete(element);
      mount(element, element.dataset.view, data);
    };
    for (const element of document.querySelectorAll("[data-view]")) {
      const data = JSON.parse(element.querySelector('script[type="application/json"]').textContent);
      // Only what comes near the window is drawn: a long page opens at once.
      const observer = new IntersectionObserver((entries) => {
        if (entries.some((entry) => entry.isIntersecting)) open(element);
      }, { rootMargin: "600px" });
      waiting.set(element, [data, observer]);
      observer.observe(element);
    }
    for (const box of document.querySelectorAll(".box")) hinted(box);
    // Paper has all views, in light colours.
    const paper = (on) => {
      document.documentElement.toggleAttribute("data-print", on);
      for (const paint of painters) paint();
    };
    window.addEventListener("beforeprint", () => { for (const element of [...waiting.keys()]) open(element); paper(true); });
    window.addEventListener("afterprint", () => paper(false));
  }

  // A line above a table that is wider than the window says so.
  function hinted(box) {
    const hint = make("p", { class: "hint", "aria-hidden": "true" }, "Wider than the window: scroll sideways →");
    const look = () => { hint.hidden = box.scrollWidth <= box.clientWidth + 2; };
    box.before(hint);
    new ResizeObserver(look).observe(box);
    look();
  }

  return { kinds, make, draw, colour, redrawn, sized, status, chip, shown, mount, mountAll };
})();

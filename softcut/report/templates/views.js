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

  // Canvas drawings are made anew when the width of the page or its colours change.
  function redrawn(element, paint) {
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
    if (size !== 0 && (size < 1e-3 || size >= 1e6)) return value.toExponential(2);
    return String(Number(value.toPrecision(4)));
  }

  function mount(element, kind, data) {
    element.replaceChildren();
    element.classList.add("view");
    kinds[kind](element, data);
  }

  function mountAll() {
    for (const element of document.querySelectorAll("[data-view]")) {
      const data = JSON.parse(element.querySelector('script[type="application/json"]').textContent);
      // Only what comes near the window is drawn: a long page opens at once.
      new IntersectionObserver((entries, observer) => {
        if (entries.some((entry) => entry.isIntersecting)) {
          observer.disconnect();
          mount(element, element.dataset.view, data);
        }
      }, { rootMargin: "600px" }).observe(element);
    }
  }

  return { kinds, make, draw, colour, redrawn, sized, status, chip, shown, mount, mountAll };
})();

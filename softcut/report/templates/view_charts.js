"use strict";
// Charts in SVG: curves, points, dots, the graph of clusters; S as a heat map; the table of clusters.
(() => {
  const { kinds, make, draw, colour, redrawn, sized, status, chip, shown } = softcutViews;
  const WIDTH = 420, HEIGHT = 250, LEFT = 52, RIGHT = 10, TOP = 24, BOTTOM = 38;

  function ticks(low, high, wanted = 5) {
    const rough = (high - low) / wanted || 1, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * ([1, 2, 5, 10].find((f) => f * power >= rough) || 10), found = [];
    for (let at = Math.ceil(low / step) * step; at <= high + step * 1e-6; at += step) found.push(Number(at.toPrecision(12)));
    return found;
  }

  // Whole numbers only, each of them where there is room.
  function wholes(low, high) {
    const first = Math.ceil(low), step = Math.ceil((Math.floor(high) - first + 1) / 12);
    return Array.from({ length: Math.max(0, Math.floor((high - first) / step) + 1) }, (_, i) => first + i * step);
  }

  function extent(values) {
    let low = Infinity, high = -Infinity;
    for (const value of values) if (value !== null) { low = Math.min(low, value); high = Math.max(high, value); }
    if (low > high) return [0, 1];
    const room = (high - low) * 0.04 || Math.abs(high) * 0.1 || 0.5;
    return [low - room, high + room];
  }

  // A frame with both axes; returns the drawing and the two functions from values to places.
  function frame(panel, [x0, x1], [y0, y1], names = null) {
    const svg = draw("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", tabindex: 0, "aria-label": panel.label || panel.title });
    const px = (value) => LEFT + (WIDTH - LEFT - RIGHT) * (value - x0) / (x1 - x0);
    const py = (value) => HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - y0) / (y1 - y0);
    for (const at of ticks(y0, y1)) {
      svg.append(draw("line", { class: "grid", x1: LEFT, x2: WIDTH - RIGHT, y1: py(at), y2: py(at) }));
      svg.append(draw("text", { x: LEFT - 6, y: py(at) + 4, "text-anchor": "end" }, shown(at)));
    }
    for (const at of names ? names.map((_, i) => i) : (panel.whole ? wholes : ticks)(x0, x1)) {
      svg.append(draw("text", { x: px(at), y: HEIGHT - BOTTOM + 15, "text-anchor": "middle" }, names ? names[at] : shown(at)));
    }
    svg.append(draw("path", { class: "axis", fill: "none", d: `M${LEFT} ${TOP}V${HEIGHT - BOTTOM}H${WIDTH - RIGHT}` }));
    svg.append(draw("text", { class: "title", x: LEFT, y: 13 }, panel.title || ""));
    svg.append(draw("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 5, "text-anchor": "middle" }, panel.x));
    return [svg, px, py];
  }

  function curves(element, data) {
    const off = new Set(), said = status();
    const box = make("div", { class: data.panels.length > 1 ? "charts" : "charts one" });
    const names = [...new Map(data.panels.flatMap((p) => p.series).map((s) => [s.name, s])).values()];
    if (data.legend) names.sort((a, b) => data.legend.indexOf(a.name) - data.legend.indexOf(b.name));
    const legend = make("div", { class: "tools", role: "group", "aria-label": "Lines shown" });
    legend.append(...names.map((series) => {
      const one = chip(series.name, null, (on) => {
        if (on) off.delete(series.name); else off.add(series.name);
        paint();
      });
      const sample = draw("svg", { width: 26, height: 8, "aria-hidden": "true" });
      sample.append(draw("line", { x1: 0, x2: 26, y1: 4, y2: 4, stroke: series.colour, "stroke-width": 2.5,
        "stroke-dasharray": series.dash || "none" }));
      one.prepend(sample);
      return one;
    }));
    function paint() { box.replaceChildren(...data.panels.map(panel)); }

    function panel(given) {
      const lines = given.series.filter((series) => !off.has(series.name));
      const xs = (series) => series.x || series.y.map((_, i) => i + 1);
      const spanX = extent(lines.flatMap(xs)), spanY = extent(lines.flatMap((s) => s.y));
      const [svg, px, py] = frame(given, spanX, spanY);
      if (given.mark !== undefined && given.mark !== null) {
        svg.append(draw("line", { class: "axis mark", x1: px(given.mark), x2: px(given.mark), y1: TOP, y2: HEIGHT - BOTTOM, "stroke-dasharray": "5 3" }));
      }
      for (const series of lines) {
        const at = xs(series);
        // A missing value breaks the line.
        const path = series.y.map((y, i) => (y === null ? "" : `${i && series.y[i - 1] !== null ? "L" : "M"}${px(at[i]).toFixed(1)} ${py(y).toFixed(1)}`));
        svg.append(draw("path", { d: path.join(""), fill: "none", stroke: series.colour, "stroke-width": 1.8,
          "stroke-dasharray": series.dash || "none" }));
        series.y.forEach((y, i) => {
          if (series.points && y !== null) svg.append(draw("circle", { cx: px(at[i]), cy: py(y), r: 3, fill: series.colour }));
        });
      }
      const cross = draw("line", { class: "cross", y1: TOP, y2: HEIGHT - BOTTOM, visibility: "hidden" });
      svg.append(cross);
      let now = null;
      const tell = (wanted) => {
        const all = lines.length ? xs(lines.reduce((a, b) => (xs(a).length > xs(b).length ? a : b))) : [];
        if (!all.length) return;
        now = all.reduce((a, b) => (Math.abs(b - wanted) < Math.abs(a - wanted) ? b : a));
        for (const side of ["x1", "x2"]) cross.setAttribute(side, px(now));
        cross.setAttribute("visibility", "visible");
        const parts = lines.map((s) => [s.name, s.y[xs(s).indexOf(now)]]).filter(([, y]) => y !== undefined);
        said.textContent = `${given.title ? `${given.title}, ` : ""}${given.x} ${shown(now)}: ` + parts.map(([name, y]) => `${name} ${shown(y)}`).join(", ");
      };
      svg.addEventListener("pointermove", (event) => {
        const bounds = svg.getBoundingClientRect();
        const at = (event.clientX - bounds.left) / bounds.width * WIDTH;
        tell(spanX[0] + (at - LEFT) / (WIDTH - LEFT - RIGHT) * (spanX[1] - spanX[0]));
      });
      svg.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!step || !lines.length) return;
        const all = xs(lines[0]), i = now === null ? 0 : all.indexOf(now) + step;
        tell(all[Math.min(all.length - 1, Math.max(0, i))]);
        event.preventDefault();
      });
      return make("div", { class: "chart" }, svg);
    }
    element.append(...(names.length > 1 && data.legend !== false ? [legend] : []), box, said);
    paint();
  }

  // Points, perhaps with a count each as their area, and straight lines to compare them with; the nearest one is named.
  function points(element, data) {
    const said = status(), box = make("div", { class: data.panels.length > 1 ? "charts" : "charts one" });
    function panel(given) {
      const most = given.counts ? Math.max(...given.counts) : 1;
      const ends = (axis) => given.lines.flatMap((line) => [line[axis], line[axis + 2]]);
      const [svg, px, py] = frame(given, extent([...given.xs, ...ends(0)]), extent([...given.ys, ...ends(1)]));
      for (const [x1, y1, x2, y2] of given.lines) svg.append(draw("line", { class: "cross", x1: px(x1), y1: py(y1), x2: px(x2), y2: py(y2) }));
      const at = given.xs.map((x, i) => [px(x), py(given.ys[i])]), places = at.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`);
      if (given.counts) {
        svg.append(draw("path", { class: "joined", d: `M${places.join("L")}` }));
        at.forEach(([cx, cy], i) => svg.append(draw("circle", { class: "disc", cx, cy, r: 3 + 10 * Math.sqrt(given.counts[i] / most) })));
      } else { // one path for all: thousands of elements would be slow
        svg.append(draw("path", { class: "points", d: places.map((place) => `M${place}h0`).join("") }));
      }
      const ring = draw("circle", { class: "axis", r: 7, fill: "none", "stroke-width": 2, visibility: "hidden" });
      svg.append(ring);
      let now = -1;
      const tell = (i) => {
        now = i;
        ring.setAttribute("cx", at[i][0]);
        ring.setAttribute("cy", at[i][1]);
        ring.setAttribute("visibility", "visible");
        said.textContent = `${data.names[i]}: ${given.x} ${shown(given.xs[i])}, ${given.title} ${shown(given.ys[i])}`;
      };
      svg.addEventListener("pointermove", (event) => {
        const bounds = svg.getBoundingClientRect();
        const spot = [event.clientX - bounds.left, event.clientY - bounds.top].map((v) => v / bounds.width * WIDTH);
        const distance = (place) => (place[0] - spot[0]) ** 2 + (place[1] - spot[1]) ** 2;
        if (at.length) tell(at.reduce((best, place, i) => (distance(place) < distance(at[best]) ? i : best), 0));
      });
      svg.addEventListener("keydown", (event) => {
        const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
        if (!step || !at.length) return;
        tell(Math.min(at.length - 1, Math.max(0, now + step)));
        event.preventDefault();
      });
      return make("div", { class: "chart" }, svg);
    }
    box.append(...data.panels.map(panel));
    said.textContent = data.hint;
    element.append(box, said);
  }

  // One column per group, one dot per value, a bar at the mean; series stand side by side with marks of their own.
  function dots(element, data) {
    const said = status(), all = data.series.flatMap((series) => series.values.flat());
    const [svg, px, py] = frame(data, [-0.6, data.groups.length - 0.4], extent(all), data.groups);
    data.series.forEach((series, s) => {
      const offset = (s - (data.series.length - 1) / 2) * 0.3;
      series.values.forEach((values, group) => {
        const mean = values.reduce((a, b) => a + b, 0) / (values.length || 1);
        values.forEach((value, i) => {
          const cx = px(group + offset + ((i % 5) - 2) * 0.035), cy = py(value);
          const mark = s % 2 ? draw("rect", { x: cx - 3, y: cy - 3, width: 6, height: 6, transform: `rotate(45 ${cx} ${cy})` })
            : draw("circle", { cx, cy, r: 3.4 });
          mark.setAttribute("fill", series.colour);
          mark.setAttribute("fill-opacity", 0.75);
          mark.addEventListener("pointerenter", () => {
            said.textContent = `${series.name}, ${data.x} ${data.groups[group]}: ${shown(value)} (mean ${shown(mean)})`;
          });
          svg.append(mark);
        });
        if (values.length) {
          svg.append(draw("line", { class: "axis", "stroke-width": 2, x1: px(group + offset - 0.12), x2: px(group + offset + 0.12), y1: py(mean), y2: py(mean) }));
        }
      });
    });
    const legend = make("div", { class: "tools" });
    data.series.forEach((series, s) => {
      const mark = make("span", { class: "swatch" });
      mark.style.background = series.colour;
      if (s % 2) { mark.style.borderRadius = "0"; mark.style.transform = "rotate(45deg)"; }
      legend.append(make("span", { class: "chip" }, mark, series.name));
    });
    element.append(legend, make("div", { class: "chart wide" }, svg), said);
  }

  function groups(element, data) {
    const said = status(), k = data.clusters.length, size = 420, ring = k > 1 ? 150 : 0;
    const svg = draw("svg", { viewBox: `0 0 ${size} ${size}`, role: "group", "aria-label": data.label });
    const at = data.clusters.map((_, i) => {
      const angle = -Math.PI / 2 + 2 * Math.PI * i / k;
      return [size / 2 + ring * Math.cos(angle), size / 2 + ring * Math.sin(angle)];
    });
    const widest = Math.max(...data.links.map((link) => link.weight), 1e-9), lines = [];
    for (const link of data.links) {
      const [x1, y1] = at[link.a], [x2, y2] = at[link.b], share = link.weight / widest;
      const line = draw("line", { x1, y1, x2, y2, "stroke-width": 0.6 + 12 * share, "stroke-opacity": 0.25 + 0.55 * share });
      lines.push([link, line]);
      svg.append(line);
    }
    const most = Math.max(...data.clusters.map((cluster) => cluster.size));
    const largest = k > 1 ? Math.min(52, 0.9 * Math.PI * ring / k) : 90;
    data.clusters.forEach((cluster, i) => {
      const disc = draw("circle", { cx: at[i][0], cy: at[i][1], r: Math.max(4, largest * Math.sqrt(cluster.size / most)), fill: cluster.colour,
        tabindex: 0, role: "img", "aria-label": cluster.text });
      const show = () => {
        const own = data.links.filter((link) => link.a === i || link.b === i).sort((a, b) => b.weight - a.weight).slice(0, 4);
        const other = (link) => data.clusters[link.a === i ? link.b : link.a].number;
        said.textContent = `${cluster.text}. ` + (own.length ? `Most edges to ${own.map((l) => `${other(l)} (${shown(l.weight)})`).join(", ")}.` : "No edges to others.");
        for (const [link, line] of lines) line.classList.toggle("dim", link.a !== i && link.b !== i);
      };
      const hide = () => { for (const [, line] of lines) line.classList.remove("dim"); };
      for (const name of ["pointerenter", "focus"]) disc.addEventListener(name, show);
      for (const name of ["pointerleave", "blur"]) disc.addEventListener(name, hide);
      svg.append(disc);
      svg.append(draw("text", { x: at[i][0], y: at[i][1] + 5, "text-anchor": "middle", "pointer-events": "none" }, cluster.number));
    });
    said.textContent = data.hint;
    svg.style.maxWidth = "34rem";
    element.append(make("div", { class: "chart groups" }, svg), said);
  }

  // S: one column per node (or per few nodes), one row per cluster.
  function heat(element, data) {
    const canvas = make("canvas", { class: "heat", role: "img", "aria-label": data.label }), said = status();
    const row = Math.max(14, Math.min(30, 260 / data.k)), left = 34, height = row * data.k;
    function paint() {
      const [context, width] = sized(canvas, height);
      const cell = (width - left) / data.columns, ink = colour("ink");
      context.clearRect(0, 0, width, height);
      context.font = "12px system-ui, sans-serif";
      for (let c = 0; c < data.k; c++) {
        context.globalAlpha = 1;
        context.fillStyle = ink;
        context.textBaseline = "middle";
        context.fillText(data.clusters[c], 6, (c + 0.5) * row);
        context.fillStyle = colour("heat");
        for (let i = 0; i < data.columns; i++) {
          context.globalAlpha = data.values[i * data.k + c] / 100;
          context.fillRect(left + i * cell, c * row + 0.5, Math.ceil(cell * 2) / 2 + 0.25, row - 1);
        }
      }
      context.globalAlpha = 1;
    }
    canvas.addEventListener("pointermove", (event) => {
      const box = canvas.getBoundingClientRect();
      const i = Math.floor((event.clientX - box.left - left) / ((box.width - left) / data.columns));
      const c = Math.floor((event.clientY - box.top) / row);
      if (i < 0 || i >= data.columns || c < 0 || c >= data.k) return;
      said.textContent = `${data.names[i]}: cluster ${data.clusters[c]}, ${(data.values[i * data.k + c] / 100).toFixed(2)}`;
    });
    const key = make("p", { class: "faint" }, "0 ", make("span", { class: "scale" }), " 1");
    element.append(canvas, said, key);
    redrawn(canvas, paint);
  }

  // The same table as in a report: a row per cluster, in its colour.
  function clusters(element, data) {
    const head = make("tr", {}, ...data.columns.map((name) => make("th", { scope: "col" }, name)));
    const rows = data.rows.map((row) => make("tr", {}, ...row.map((cell, i) => {
      const one = make(i ? "td" : "th", { "data-title": data.columns[i], class: cell.classes, scope: i ? null : "row" });
      if (cell.swatch) {
        const dot = make("span", { class: "swatch" });
        dot.style.background = cell.swatch;
        one.append(dot);
      }
      one.append(cell.text);
      if (cell.below) one.append(make("small", {}, cell.below));
      return one;
    })));
    const table = make("table", {}, make("thead", {}, head), make("tbody", {}, ...rows));
    element.classList.remove("view");
    element.append(make("div", { class: "box stacked", tabindex: 0, role: "region", "aria-label": data.label }, table));
  }

  Object.assign(kinds, { curves, points, dots, groups, heat, clusters });
})();

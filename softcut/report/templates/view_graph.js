"use strict";
// The graph, coloured by cluster: zoom, drag, hover, filter by cluster, find a node.
softcutViews.kinds.graph = (element, data) => {
  const { make, colour, redrawn, sized, status, chip } = softcutViews;
  const count = data.labels.length;
  const CHIPS = 40, NUMBERS = 60; // clusters that have a button, and a number in the drawing
  const height = Math.min(560, Math.max(300, Math.min(window.innerHeight * 0.6, element.clientWidth || 560)));
  let colours = new Map(data.clusters.map((cluster) => [cluster.number, cluster.colour]));
  let standard = true; // whether the clusters are those whose probabilities are known
  const hidden = new Set();
  const neighbours = Array.from({ length: count }, () => []);
  for (let i = 0; i < data.edges.length; i += 2) {
    neighbours[data.edges[i]].push(data.edges[i + 1]);
    neighbours[data.edges[i + 1]].push(data.edges[i]);
  }
  const layouts = { ...(data.x ? { [data.positions]: [data.x, data.y] } : {}), "one disc per cluster": discs() };
  let [x, y] = Object.values(layouts)[data.start_with_discs ? Object.keys(layouts).length - 1 : 0];
  let zoom = 1, shift = [0, 0], fitted = 1, middle = [0, 0], active = -1;

  const canvas = make("canvas", { tabindex: 0, role: "img", "aria-label": data.label });
  const said = status();
  const say = (i) => { said.textContent = i < 0 ? data.hint : describe(i); };

  // Nodes of a cluster fill a disc, the most certain ones in its middle; discs stand on a circle.
  function discs() {
    const members = new Map(data.clusters.map((cluster) => [cluster.number, []]));
    data.labels.forEach((label, i) => members.get(label).push(i));
    const radii = data.clusters.map((cluster) => Math.sqrt(members.get(cluster.number).length || 1));
    const ring = data.clusters.length < 2 ? 0
      : Math.max(1.15 * radii.reduce((a, b) => a + b) / Math.PI, 1.1 * Math.max(...radii));
    const px = new Array(count), py = new Array(count);
    let angle = -Math.PI / 2;
    data.clusters.forEach((cluster, c) => {
      const own = members.get(cluster.number).sort((a, b) => data.probability[b] - data.probability[a]);
      const width = 2 * Math.PI * radii[c] / radii.reduce((a, b) => a + b);
      angle += width / 2;
      own.forEach((node, i) => {
        const r = radii[c] * Math.sqrt((i + 0.5) / own.length), turn = i * 2.399963;
        px[node] = ring * Math.cos(angle) + r * Math.cos(turn);
        py[node] = ring * Math.sin(angle) + r * Math.sin(turn);
      });
      angle += width / 2;
    });
    return [px, py];
  }

  function fit() {
    const width = canvas.clientWidth || 300;
    const low = [Math.min(...x), Math.min(...y)], high = [Math.max(...x), Math.max(...y)];
    middle = [(low[0] + high[0]) / 2, (low[1] + high[1]) / 2];
    fitted = 0.92 * Math.min(width / (high[0] - low[0] || 1), height / (high[1] - low[1] || 1));
  }

  const place = (i) => [
    canvas.clientWidth / 2 + shift[0] + (x[i] - middle[0]) * fitted * zoom,
    height / 2 + shift[1] - (y[i] - middle[1]) * fitted * zoom,
  ];
  const visible = (i) => !hidden.has(data.labels[i]);

  function describe(i) {
    const name = data.names ? data.names[i] : `node ${data.index ? data.index[i] : i}`;
    if (!standard) return `${name}: cluster ${data.labels[i]}; neighbours shown: ${neighbours[i].length}`;
    const second = data.second[i] === null ? "" : `; next: cluster ${data.second[i]}, ${data.second_probability[i]}`;
    return `${name}: cluster ${data.labels[i]}, `
      + `probability ${data.probability[i]}${second}; neighbours shown: ${neighbours[i].length}`;
  }

  function paint() {
    fit();
    const [context, width] = sized(canvas, height);
    context.clearRect(0, 0, width, height);
    const at = data.labels.map((_, i) => place(i));
    const edges = data.edges.length / 2;
    context.lineWidth = 1;
    context.strokeStyle = colour("faint");
    context.globalAlpha = Math.min(0.55, Math.max(0.08, 350 / (edges + 1)));
    context.beginPath();
    for (let i = 0; i < data.edges.length; i += 2) {
      const a = data.edges[i], b = data.edges[i + 1];
      if (visible(a) && visible(b)) { context.moveTo(...at[a]); context.lineTo(...at[b]); }
    }
    context.stroke();
    context.globalAlpha = 1;
    if (active >= 0 && visible(active)) {
      context.strokeStyle = colour("ink");
      context.beginPath();
      for (const other of neighbours[active]) {
        if (visible(other)) { context.moveTo(...at[active]); context.lineTo(...at[other]); }
      }
      context.stroke();
    }
    const size = Math.min(9, Math.max(2.2, 70 / Math.sqrt(count)) * Math.sqrt(Math.max(1, zoom)));
    context.strokeStyle = colour("outline");
    context.lineWidth = size > 4 ? 1 : 0.3;
    data.order.forEach((i) => {
      if (!visible(i)) return;
      context.fillStyle = colours.get(data.labels[i]);
      context.beginPath();
      context.arc(...at[i], size, 0, 7);
      context.fill();
      context.stroke();
    });
    if (active >= 0 && visible(active)) ringed(context, at[active], size + 3);
    for (const cluster of data.clusters.slice(0, NUMBERS)) numbered(context, cluster, at);
  }

  function ringed(context, spot, size) {
    context.strokeStyle = colour("ink");
    context.lineWidth = 2;
    context.beginPath();
    context.arc(...spot, size, 0, 7);
    context.stroke();
  }

  // The number of a cluster stands at the median of its nodes: colours are not all there is to tell them apart.
  function numbered(context, cluster, at) {
    if (hidden.has(cluster.number) || !cluster.members.length) return;
    const median = (axis) => {
      const sorted = cluster.members.map((i) => at[i][axis]).sort((a, b) => a - b);
      return sorted[sorted.length >> 1];
    };
    context.font = "bold 15px system-ui, sans-serif";
    context.textAlign = "center";
    context.textBaseline = "middle";
    context.lineWidth = 4;
    context.strokeStyle = colour("ground");
    context.fillStyle = colour("ink");
    context.strokeText(cluster.number, median(0), median(1));
    context.fillText(cluster.number, median(0), median(1));
  }

  function nearest(spot) {
    let best = -1, least = 15 ** 2;
    for (let i = 0; i < count; i++) {
      if (!visible(i)) continue;
      const [px, py] = place(i), distance = (px - spot[0]) ** 2 + (py - spot[1]) ** 2;
      if (distance < least) [best, least] = [i, distance];
    }
    return best;
  }

  function pick(i) {
    if (i !== active) { active = i; say(i); paint(); }
  }

  function scale(factor, spot = [canvas.clientWidth / 2, height / 2]) {
    const next = Math.min(60, Math.max(0.3, zoom * factor)), change = next / zoom;
    const centre = [canvas.clientWidth / 2, height / 2];
    shift = shift.map((s, axis) => (s + centre[axis] - spot[axis]) * change + spot[axis] - centre[axis]);
    zoom = next;
    paint();
  }

  function reset() { zoom = 1; shift = [0, 0]; paint(); }

  const spotOf = (event) => {
    const box = canvas.getBoundingClientRect();
    return [event.clientX - box.left, event.clientY - box.top];
  };
  const fingers = new Map();
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    fingers.set(event.pointerId, spotOf(event));
    pick(nearest(spotOf(event)));
  });
  canvas.addEventListener("pointermove", (event) => {
    const now = spotOf(event), before = fingers.get(event.pointerId);
    if (!before) return pick(nearest(now));
    if (fingers.size === 2) {
      const other = [...fingers].find(([id]) => id !== event.pointerId)[1];
      const span = (a) => Math.hypot(a[0] - other[0], a[1] - other[1]) || 1;
      scale(span(now) / span(before), other);
    } else {
      shift = [shift[0] + now[0] - before[0], shift[1] + now[1] - before[1]];
      paint();
    }
    fingers.set(event.pointerId, now);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    canvas.addEventListener(name, (event) => fingers.delete(event.pointerId));
  }
  canvas.addEventListener("pointerleave", () => { if (!fingers.size) pick(-1); });
  canvas.addEventListener("wheel", (event) => {
    // With Ctrl, or once the graph has been clicked: otherwise a page could not be scrolled past it.
    if (!event.ctrlKey && document.activeElement !== canvas) return;
    event.preventDefault();
    scale(Math.exp(-event.deltaY / 400), spotOf(event));
  }, { passive: false });
  canvas.addEventListener("keydown", (event) => {
    const moves = { ArrowLeft: [40, 0], ArrowRight: [-40, 0], ArrowUp: [0, 40], ArrowDown: [0, -40] };
    if (moves[event.key]) shift = shift.map((s, axis) => s + moves[event.key][axis]);
    else if (event.key === "+" || event.key === "=") scale(1.3);
    else if (event.key === "-") scale(1 / 1.3);
    else if (event.key === "0") reset();
    else return;
    event.preventDefault();
    paint();
  });

  const tools = make("div", { class: "tools", role: "group", "aria-label": "Graph" });
  const button = (text, label, click) => make("button", { type: "button", "aria-label": label, onclick: click }, text);
  tools.append(button("+", "Zoom in", () => scale(1.3)), button("−", "Zoom out", () => scale(1 / 1.3)),
    button("Whole graph", "Show the whole graph", reset));
  if (Object.keys(layouts).length > 1) {
    const choice = make("select", { "aria-label": "Positions of nodes" });
    for (const name of Object.keys(layouts)) choice.append(make("option", { value: name }, name));
    choice.selectedIndex = data.start_with_discs ? 1 : 0;
    choice.addEventListener("change", () => { [x, y] = layouts[choice.value]; reset(); });
    tools.append(choice);
  }
  const find = make("input", { type: "search", placeholder: "Find a node", "aria-label": "Find a node by name" });
  find.addEventListener("change", () => {
    const wanted = find.value.trim().toLowerCase();
    const name = (i) => (data.names ? data.names[i] : String(data.index ? data.index[i] : i)).toLowerCase();
    const all = data.labels.map((_, i) => i);
    const found = all.find((i) => name(i) === wanted) ?? all.find((i) => name(i).includes(wanted)) ?? -1;
    if (wanted && found < 0) said.textContent = "No node shown here has this name.";
    else if (wanted) { hidden.delete(data.labels[found]); refresh(); pick(found); }
  });
  tools.append(find);

  const filter = make("div", { class: "tools", role: "group", "aria-label": "Clusters shown" });
  let chips = [];
  function choose() {
    chips = data.clusters.slice(0, CHIPS).map((cluster) => {
      const one = chip(`${cluster.number}: ${cluster.size.toLocaleString("en")}`, cluster.colour, (on) => {
        if (on) hidden.delete(cluster.number); else hidden.add(cluster.number);
        refresh();
      });
      one.setAttribute("aria-label", `Cluster ${cluster.number}, ${cluster.size} nodes`);
      return one;
    });
    const more = data.clusters.length - chips.length;
    filter.replaceChildren(...chips, ...(more > 0 ? [make("span", { class: "faint" }, `and ${more} more`)] : []),
      button("All", "Show all clusters", () => { hidden.clear(); refresh(); }),
      button("None", "Hide all clusters", () => { for (const c of data.clusters) hidden.add(c.number); refresh(); }));
  }
  function refresh() {
    chips.forEach((one, c) => one.setAttribute("aria-pressed", String(!hidden.has(data.clusters[c].number))));
    if (active >= 0 && !visible(active)) active = -1;
    say(active);
    paint();
  }
  choose();

  // Nested clusters: the nodes stay where they are and take the colours of another level.
  if (data.levels) {
    const choice = make("select", { "aria-label": "Level of the clusters" });
    data.levels.forEach((level, i) => choice.append(make("option", { value: i }, level.name)));
    choice.selectedIndex = Math.max(0, data.levels.findIndex((level) => level.shown));
    choice.addEventListener("change", () => {
      const level = data.levels[choice.selectedIndex];
      data = { ...data, labels: level.labels, clusters: level.clusters };
      standard = level.shown;
      colours = new Map(data.clusters.map((cluster) => [cluster.number, cluster.colour]));
      hidden.clear();
      choose();
      refresh();
    });
    tools.append(choice);
  }

  element.append(tools, filter, canvas, said);
  element.graphView = { place, shown: () => data.labels.filter((_, i) => visible(i)).length, zoom: () => zoom };
  say(-1);
  redrawn(canvas, paint);
};

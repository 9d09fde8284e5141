"use strict";
// The local page: send a file, ask how it goes, show what was found.
(() => {
  const { make, mount } = softcutViews;
  const byId = (name) => document.getElementById(name);
  const form = byId("order"), drop = byId("drop");
  const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#9600FF"];
  const STORED = "softcut-jobs", MOST_STORED = 20;
  let job = null; // the job that is shown

  function problem(sentence) {
    byId("problem").textContent = sentence;
    byId("problem").hidden = !sentence;
  }

  async function ask(path, options = {}) {
    const answer = await fetch(path, options);
    const found = await answer.json().catch(() => ({}));
    if (!answer.ok) throw new Error(found.error || `the server answered with ${answer.status}.`);
    return found;
  }

  function busy(on) {
    byId("start").disabled = on;
    byId("cancel").hidden = !on;
  }

  // This browser remembers its jobs, so that a page that was closed finds them again; the server names no job by itself.
  function stored() {
    try {
      const names = JSON.parse(localStorage.getItem(STORED) || "[]");
      return Array.isArray(names) ? names.filter((name) => typeof name === "string") : [];
    } catch { return []; }
  }

  function store(names) {
    try { localStorage.setItem(STORED, JSON.stringify(names.slice(-MOST_STORED))); } catch { /* a private window */ }
  }

  async function remove(id) {
    if (job === id) clear();
    store(stored().filter((name) => name !== id));
    await ask(`/jobs/${id}`, { method: "DELETE" }).catch(() => {});
    await list();
  }

  // The jobs that still exist, the newest first.
  async function list() {
    const names = [...new Set([...stored(), ...(location.hash.length > 1 ? [location.hash.slice(1)] : [])])];
    const query = names.map((name) => `id=${encodeURIComponent(name)}`).join("&");
    const jobs = names.length ? (await ask(`/jobs?${query}`)).jobs : [];
    store(jobs.map((one) => one.id));
    jobs.reverse();
    byId("earlier").hidden = !jobs.length;
    byId("jobs").replaceChildren(...jobs.map((one) => {
      const text = `${one.file}, clusters: ${one.clusters} (${one.state})`;
      const button = make("button", { type: "button" }, "Remove");
      button.addEventListener("click", () => remove(one.id));
      return make("li", {}, make("a", { href: `#${one.id}` }, text), " ", button);
    }));
    return jobs;
  }

  // Nothing is shown; the job goes on.
  function clear() {
    job = null;
    busy(false);
    problem("");
    byId("state").textContent = "";
    for (const name of ["read", "training", "result", "bar"]) byId(name).hidden = true;
    if (location.hash) history.replaceState(null, "", location.pathname);
  }

  async function open(id) {
    clear();
    job = id;
    history.replaceState(null, "", `#${id}`);
    busy(true);
    byId("state").textContent = "Reading …";
    try {
      await follow(id);
    } catch (error) {
      if (job === id) fail(error);
    } finally {
      if (job === id) busy(false);
      await list().catch(() => {});
    }
  }

  function fail(error) {
    byId("state").textContent = "";
    byId("bar").hidden = true;
    problem(error.message);
    const field = error.field && form.elements.namedItem(error.field);
    if (!field) return;
    if (byId("reading").contains(field)) byId("reading").open = true;
    field.focus({ preventScroll: true });
    byId("problem").scrollIntoView({ block: "nearest" }); // what is wrong stays in sight
  }

  function tell(text, done, all) {
    byId("state").textContent = text;
    const bar = byId("bar");
    bar.hidden = false;
    if (all) { bar.max = all; bar.value = done; } else bar.removeAttribute("value");
  }

  function happened([kind, ...values]) {
    if (kind === "read") {
      byId("understood").replaceChildren(...values[0].map((note) => make("li", {}, note)));
      byId("size").textContent = values[0].at(-1) || "";
      byId("read").hidden = false;
      byId("read").firstElementChild.open = true;
      tell("Preparing …");
    } else if (kind === "comparing") {
      const [k, first, last] = values;
      tell(`Comparing ${first} to ${last} clusters: at ${k}.`, k - first, last - first + 1);
    } else {
      const [training, iteration, iterations, , , seconds] = values;
      const left = seconds >= 1 ? `, at most ${Math.round(seconds)} s left` : "";
      tell(`Training ${training + 1}: iteration ${iteration} of at most ${iterations}${left}.`, iteration, iterations);
    }
  }

  // Each training is a line; both losses have a panel.
  function losses(events) {
    const trainings = new Map();
    for (const [kind, phase, iteration, , cut, ortho] of events) {
      if (kind !== "progress") continue;
      if (!trainings.has(phase)) trainings.set(phase, { x: [], cut: [], ortho: [] });
      const one = trainings.get(phase);
      one.x.push(iteration); one.cut.push(cut); one.ortho.push(ortho);
    }
    if (!trainings.size) return;
    const line = (term) => [...trainings].map(([phase, one]) => (
      { name: `training ${phase + 1}`, x: one.x, y: one[term], colour: COLOURS[phase % COLOURS.length] }));
    byId("training").hidden = false;
    const first = trainings.size < 3 ? line("cut").map((one) => [one]) : [line("cut")];
    const panels = first.map((series) => ({ title: series.length > 1 ? "objective" : `objective of ${series[0].name}`, x: "iteration", series }));
    mount(byId("losses"), "curves", { panels: [...panels, { title: "orthogonality", x: "iteration", series: line("ortho") }] });
  }

  async function follow(id) {
    const events = [];
    while (job === id) {
      const now = await ask(`/jobs/${id}?since=${events.length}`);
      if (job !== id) return;
      if (now.events.length) {
        events.push(...now.events);
        losses(events);
        now.events.forEach(happened);
      }
      if (now.state === "failed") throw Object.assign(new Error(now.error), { field: now.field });
      if (now.state === "done") return show(id, now.result);
      await new Promise((wake) => setTimeout(wake, 250));
    }
  }

  async function show(id, result) {
    byId("state").textContent = "Done.";
    byId("read").firstElementChild.open = false; // one line of it stays above the clusters
    byId("bar").hidden = true;
    byId("verdict").textContent = result.verdict || "";
    byId("summary").textContent = result.text;
    const links = {
      "labels.csv": "Labels (CSV)", "clusters.csv": "Clusters (CSV)", "communities.json": "Levels (JSON)", "report.html": "Whole report", "overlay.png": "Overlay (PNG)",
      "cut-outs.zip": "Cut-outs (PNG, zipped)", "labels.png": "Labels (PNG)",
    };
    byId("files").replaceChildren(...result.files.filter((name) => links[name]).flatMap((name) => {
      const link = make("a", { href: `/jobs/${id}/${name}` }, links[name]);
      if (name === "report.html") link.setAttribute("target", "_blank");
      else link.setAttribute("download", name);
      return [link, "  "];
    }));
    const box = byId("views");
    box.replaceChildren();
    byId("result").hidden = false;
    if (result.kind === "picture") {
      box.append(make("figure", { class: "picture" }, make("img", { src: `/jobs/${id}/overlay.png`, alt: result.text })));
    } else {
      for (const view of await ask(`/jobs/${id}/views.json`)) {
        const place = make("div"), figure = make("figure", {}, place);
        if (view.caption) figure.append(make("figcaption", {}, view.caption));
        box.append(figure);
        mount(place, view.view, view.data);
      }
    }
    if (result.notes.length) box.append(make("ul", { class: "faint" }, ...result.notes.map((note) => make("li", {}, note))));
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    clear();
    byId("state").textContent = "Sending …";
    busy(true);
    try {
      const { id } = await ask("/jobs", { method: "POST", body: new FormData(form) });
      store([...stored(), id]);
      await open(id);
    } catch (error) {
      busy(false);
      fail(error);
    }
  });
  byId("cancel").addEventListener("click", async () => {
    if (job) await remove(job);
    byId("state").textContent = "Cancelled.";
  });

  // An example goes through the form like any file.
  async function filled(input, name) {
    const files = new DataTransfer();
    if (name) {
      const answer = await fetch(`/examples/${name}`);
      if (!answer.ok) throw new Error(`the example ${name} is not there.`);
      files.items.add(new File([await answer.blob()], name));
    }
    input.files = files.files;
  }
  for (const button of byId("examples").querySelectorAll("button")) {
    button.addEventListener("click", async () => {
      if (byId("start").disabled) return;
      form.reset();
      byId("reading").open = false;
      try {
        await filled(form.elements.file, button.dataset.file);
        await filled(form.elements.features, button.dataset.features);
      } catch (error) {
        return fail(error);
      }
      form.elements.k.value = button.dataset.k;
      form.requestSubmit();
    });
  }
  for (const name of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer.files.length) form.elements.file.files = event.dataTransfer.files;
    });
  }
  window.addEventListener("hashchange", () => {
    const id = location.hash.slice(1);
    if (id && id !== job) open(id);
  });
  // After a reload the address names the job; a new page shows the newest there is.
  list().then((jobs) => {
    const wanted = location.hash.slice(1), found = jobs.find((one) => one.id === wanted) || jobs[0];
    if (job) return;
    if (found) open(found.id);
    else if (wanted) clear();
    if (wanted && found?.id !== wanted) byId("state").textContent = "The job of this address does not exist any more.";
  }).catch(fail);
})();

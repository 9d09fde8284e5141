"use strict";
// The local page: send a file, ask how it goes, show what was found.
(() => {
  const { make, mount } = softcutViews;
  const byId = (name) => document.getElementById(name);
  const form = byId("order"), drop = byId("drop");
  const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#9600FF"];
  let job = null; // the job that is shown; a new one, or leaving the page, removes it

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

  async function forget() {
    const old = job;
    job = null;
    if (old) await ask(`/jobs/${old}`, { method: "DELETE" }).catch(() => {});
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
        const last = events.at(-1);
        if (last[0] === "read") byId("state").textContent = `Read: ${last[1]}. Preparing …`;
        else byId("state").textContent = `Training ${last[1] + 1}: iteration ${last[2]} of at most ${last[3]}.`;
      }
      if (now.state === "failed") throw new Error(now.error);
      if (now.state === "done") return show(id, now.result);
      await new Promise((wake) => setTimeout(wake, 250));
    }
  }

  async function show(id, result) {
    byId("state").textContent = "Done.";
    byId("verdict").textContent = result.verdict || "";
    byId("summary").textContent = result.text;
    const links = { "labels.csv": "Labels (CSV)", "clusters.csv": "Clusters (CSV)", "labels.png": "Labels (PNG)", "report.html": "Whole report" };
    byId("files").replaceChildren(...result.files.filter((name) => links[name]).flatMap((name) => {
      const link = make("a", { href: `/jobs/${id}/${name}` }, links[name]);
      if (name !== "report.html") link.setAttribute("download", name);
      else link.setAttribute("target", "_blank");
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
    await forget();
    problem("");
    for (const name of ["training", "result"]) byId(name).hidden = true;
    byId("state").textContent = "Sending …";
    busy(true);
    try {
      const { id } = await ask("/jobs", { method: "POST", body: new FormData(form) });
      job = id;
      byId("state").textContent = "Reading …";
      await follow(id);
    } catch (error) {
      byId("state").textContent = "";
      problem(error.message);
    } finally {
      busy(false);
    }
  });
  byId("cancel").addEventListener("click", async () => {
    await forget();
    byId("state").textContent = "Cancelled.";
    busy(false);
  });
  for (const name of ["dragover", "dragleave", "drop"]) {
    drop.addEventListener(name, (event) => {
      event.preventDefault();
      drop.classList.toggle("over", name === "dragover");
      if (name === "drop" && event.dataTransfer.files.length) form.elements.file.files = event.dataTransfer.files;
    });
  }
  window.addEventListener("pagehide", () => {
    if (job) fetch(`/jobs/${job}`, { method: "DELETE", keepalive: true });
  });
})();

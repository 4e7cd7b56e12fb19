/* Name, state, progress, times and the actions that the state allows. */

import { showFindings } from "../findings.js";
import { duration, count } from "../format.js";
import { ENDED } from "./states.js";

export class Header {
  #run;

  constructor(run) {
    this.#run = run;
    this.again();
    setInterval(() => times(run.summary), 1000);
  }

  delta(message) {
    show(message.run);
  }

  again() {
    show(this.#run.summary);
  }
}

function show(summary) {
  const root = document.querySelector("[data-run-head]");
  const state = root.querySelector(".state");
  state.dataset.state = summary.state;
  state.textContent = summary.state;
  showFindings(root.querySelector("[data-findings]"), summary);
  const actState = summary.state === "stopping" && summary.stop_requested === "pause" ? "pausing" : summary.state;
  for (const form of root.querySelectorAll("[data-when]")) form.hidden = !form.dataset.when.split(" ").includes(actState);
  const bar = root.querySelector("progress");
  bar.max = summary.iterations || 1;
  bar.value = summary.iteration;
  bar.classList.toggle("idle", ENDED.includes(summary.state) && summary.state !== "finished");
  root.querySelector("[data-iteration]").textContent = summary.iterations ? `iteration ${count(summary.iteration)} of ${count(summary.iterations)}` : `step ${count(summary.iteration)}`;
  const reason = document.querySelector("[data-reason]");
  reason.hidden = !summary.reason;
  reason.textContent = summary.reason;
  reason.classList.toggle("bad", summary.state === "failed");
  document.title = document.title.replace(/^(\(\d+ %\) )?/, ENDED.includes(summary.state) ? "" : `(${Math.floor(summary.progress * 100)} %) `);
  times(summary);
}

function times(summary) {
  document.querySelector("[data-times]").textContent = timesText(summary);
}

function timesText(summary) {
  if (!summary.started_at) return summary.state === "queued" ? `waiting for ${since(summary.created_at)}` : "";
  const end = summary.ended_at ? new Date(summary.ended_at) : new Date();
  const elapsed = duration((end - new Date(summary.started_at)) / 1000);
  if (summary.ended_at) return `took ${elapsed}`;
  return summary.eta_seconds == null ? `${elapsed} elapsed` : `${elapsed} elapsed, ${duration(summary.eta_seconds)} remaining`;
}

function since(moment) {
  return duration((Date.now() - new Date(moment)) / 1000);
}

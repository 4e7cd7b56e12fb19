/* Name, state, progress, times and the actions that the state allows. */

import { follow, write } from "../announce.js";
import { showFindings } from "../findings.js";
import { count, duration, hours } from "../format.js";
import { withTimes } from "../times.js";
import { counted, progress } from "./progress.js";
import { ENDED } from "./states.js";

const HOUR = 3600;
let announced = null; // the quarter of the progress
const SHORT_PAUSE = 2;  // seconds without an active attempt that are not worth a second figure

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
  write(state, summary.state);
  showFindings(root.querySelector("[data-findings]"), summary);
  const actState = summary.state === "stopping" && summary.stop_requested === "pause" ? "pausing" : summary.state;
  for (const form of root.querySelectorAll("[data-when]")) form.hidden = !form.dataset.when.split(" ").includes(actState);
  const bar = root.querySelector("progress");
  bar.hidden = !summary.iterations;
  bar.max = summary.iterations || 1;
  bar.value = summary.iteration;
  bar.classList.toggle("idle", ENDED.includes(summary.state) && summary.state !== "finished");
  root.querySelector("[data-link]").toggleAttribute("data-idle", ENDED.includes(summary.state));
  const iteration = summary.iterations ? `${counted(summary)} ${progress(summary)}` : progress(summary);
  write(root.querySelector("[data-iteration]"), iteration);
  announceRun(summary, iteration);
  showFault(root.querySelector("[data-fault]"), summary);
  document.title = document.title.replace(/^(\(\d+%\) )?/, ENDED.includes(summary.state) ? "" : `(${Math.floor(summary.progress * 100)}%) `);
  times(summary);
}

/* Announced are the state, with the cause and the remedy of a failure, open findings, and the progress at each quarter. */
function announceRun(summary, iteration) {
  const failed = summary.state === "failed", { critical = 0, warning = 0 } = summary.findings;
  const reason = failed ? [summary.reason, summary.remedy].filter(Boolean).join(" ") : "";
  follow("state", `Run state: ${summary.state}${reason ? `. ${reason}` : ""}`, failed);
  follow("findings", critical + warning ? `Open health findings: ${critical} critical, ${warning} warning${warning === 1 ? "" : "s"}` : "No open health findings");
  const quarter = summary.state === "running" && summary.iterations ? Math.floor((4 * summary.iteration) / summary.iterations) : 0;
  if (quarter !== announced) follow("progress", quarter ? iteration : "");
  announced = quarter;
}

/* What is wrong or awaited, what to do, and for a failed run the way to the traceback in its log. */
function showFault(notice, summary) {
  const failed = summary.state === "failed", traceback = notice.querySelector("[data-traceback]");
  notice.hidden = !summary.reason;
  notice.classList.toggle("bad", failed);
  notice.querySelector("[data-reason]").replaceChildren(...withTimes(summary.reason));
  write(notice.querySelector("[data-remedy]"), summary.remedy);
  if (traceback) traceback.hidden = !failed;
}

/* The times of the head, and the costs below it: all of them from the summary, so that they agree. */
function times(summary) {
  write(document.querySelector("[data-times]"), timesText(summary));
  const ran = secondsRun(summary.attempts, summary.ended_at ? new Date(summary.ended_at) : new Date());
  if (!ran) return;
  const counted = (shift) => ran + Number(shift || 0);
  writeAll("[data-hours]", ({ hours: held, shift }) => hours((Number(held) * counted(shift)) / HOUR));
  if (summary.eta_seconds !== null) writeAll("[data-hours-at-end]", ({ hoursAtEnd, shift }) => hours((Number(hoursAtEnd) * (counted(shift) + summary.eta_seconds)) / HOUR));
}

function writeAll(selector, text) {
  for (const element of document.querySelectorAll(selector)) write(element, text(element.dataset));
}

function timesText(summary) {
  if (!summary.started_at) return summary.state === "queued" ? `waiting for ${since(summary.created_at)}` : "";
  const end = summary.ended_at ? new Date(summary.ended_at) : new Date();
  const total = (end - new Date(summary.started_at)) / 1000, ran = secondsRun(summary.attempts, end) || total;
  if (!summary.ended_at) return summary.eta_seconds == null ? `${duration(ran)} elapsed` : `${duration(ran)} elapsed, about ${duration(summary.eta_seconds)} left`;
  return total - ran < SHORT_PAUSE ? `took ${duration(ran)}` : `ran ${duration(ran)}, ${duration(total)} since the start`;
}

/* Seconds in which an attempt was active: without pauses and waits between attempts. */
function secondsRun(attempts, end) {
  const started = attempts.filter((attempt) => attempt.started_at);
  return started.reduce((sum, attempt) => sum + (new Date(attempt.ended_at ?? end) - new Date(attempt.started_at)) / 1000, 0);
}

function since(moment) {
  return duration((Date.now() - new Date(moment)) / 1000);
}

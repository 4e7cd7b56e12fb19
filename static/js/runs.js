/* The runs list, with live updates. */

import { announce, reveal, write } from "./announce.js";
import { ColumnsDialog } from "./columns.js";
import { atMost, data, svg } from "./dom.js";
import { Completion } from "./filter.js";
import { showFindings } from "./findings.js";
import { change as signed, count, duration, figure } from "./format.js";
import { RunsFeed } from "./live.js";
import { readJson } from "./requests.js";
import { withTimes } from "./times.js";
import { RowNote } from "./row-note.js";
import { readAgain } from "./run/regions.js";
import { ENDED } from "./run/states.js";
import { progress } from "./run/progress.js";
import { CHART_WORDS, Workspace } from "./workspace.js";

/* A link that MLflow's clients print, /mlflow/#/experiments/1/runs/ID, redirects here. */
const printed = location.hash.match(/^#\/experiments\/\d+\/runs\/(\w+)$/);
if (printed) location.replace(`/runs/${printed[1]}/`);

function update(run) {
  const row = document.querySelector(`tr[data-run="${CSS.escape(run.id)}"]`);
  if (!row) return;
  const state = row.querySelector(".state");
  if (state.dataset.state !== run.state && ENDED.includes(run.state)) announce(`run ${run.id}`, `${row.querySelector(".row-link").textContent}: ${run.state}`);
  state.dataset.state = run.state;
  write(state, run.state);
  const why = row.querySelector("[data-why]");
  why.title = [run.reason, run.remedy].filter(Boolean).join(" ");
  why.replaceChildren(...withTimes(why.title));
  why.classList.toggle("bad", run.state === "failed");
  showFindings(row.querySelector("[data-findings]"), run);
  for (const bar of row.querySelectorAll("progress")) {
    bar.max = run.iterations || 1;
    bar.value = run.iteration;
  }
  for (const text of row.querySelectorAll("[data-iteration]")) write(text, progress(run));
  const left = run.eta_seconds === null || ENDED.includes(run.state) ? "" : duration(run.eta_seconds);
  for (const cell of row.querySelectorAll("[data-left]")) cell.textContent = left;
  for (const cell of row.querySelectorAll("[data-spark]")) cell.replaceChildren(...spark(run.headline.spark?.values ?? []));
  changed.add(run.id);
  metricsAgain();
}

/* Metrics of changed runs are read again, at most every two seconds: the feed does not know which are shown. */
const changed = new Set();
const metricsAgain = atMost(2000, async () => {
  const ids = [...changed], words = [...new Set([...document.querySelectorAll("tr[data-run] [data-metric]")].map((cell) => cell.dataset.metric))];
  changed.clear();
  if (!words.length) return;
  const query = new URLSearchParams({ filter: `id in [${ids.map((id) => `"${id}"`).join(", ")}]`, columns: words.join(","), archived: "true", limit: "100" });
  try {
    const answer = await readJson(`${document.querySelector("[data-runs]").dataset.source}?${query}`);
    for (const run of answer.results) showMetrics(run);
  } catch { /* Without the server the last values stay; the state of the connection is shown above. */ }
});

function showMetrics(run) {
  for (const cell of document.querySelectorAll(`tr[data-run="${CSS.escape(run.id)}"] [data-metric]`)) {
    const word = cell.dataset.metric, change = run.changes[word], mark = cell.querySelector("[data-change]"), name = cell.querySelector("[data-name]");
    const { metric, value } = name ? run.columns[word] ?? { metric: "", value: null } : { metric: word, value: run.columns[word] };
    if (name) name.textContent = metric;
    cell.querySelector("[data-value]").textContent = figure(value, metric);
    mark.textContent = change === null ? "" : signed(change, metric);
    if (!cell.hasAttribute("data-better")) continue;
    mark.classList.toggle("good", change > 0);
    mark.classList.toggle("bad", change < 0);
  }
}

function spark(values) {
  const known = values.map((value, index) => [index, value]).filter(([, value]) => value !== null);
  if (known.length < 2) return [];
  const all = known.map(([, value]) => value);
  const low = Math.min(...all), span = Math.max(...all) - low || 1, last = known.at(-1)[0];
  const points = known.map(([index, value]) => `${(100 * index / last).toFixed(1)},${(22 - 20 * (value - low) / span).toFixed(1)}`).join(" ");
  return [svg("svg", { class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" }, svg("polyline", { points }))];
}

for (const input of document.querySelectorAll("[data-filter]")) new Completion(input);

const columns = document.getElementById("columns");
const chosenColumns = columns && new ColumnsDialog(columns);
document.addEventListener("click", ({ target }) => target.closest("[data-columns-open]") && chosenColumns.open());

const views = document.getElementById("views");
document.addEventListener("click", ({ target }) => {
  if (target.closest("[data-views-open]")) openViews();
  if (target.closest("[data-views-close]")) views.close();
});

/* A view is saved as the address is now: charts change it without a request. */
function openViews() {
  for (const input of views.querySelectorAll("input[name=query]")) input.value = location.search.slice(1);
  views.showModal();
}

const board = data("panel-board"), workspace = board && new Workspace(board);

const rowNote = new RowNote(document.getElementById("row-note"));
document.addEventListener("click", ({ target }) => target.closest("[data-note]") && rowNote.open(target.closest("tr")));

/* Shortcuts for the row with the focus; j and k move it (app.js). */
const ROW_KEYS = { x: (row) => row.querySelector(".pick input").click(), n: (row) => rowNote.open(row), v: (row) => row.querySelector("[data-eye]")?.click() };
document.addEventListener("keydown", (event) => {
  const row = document.activeElement.closest?.("tr[data-run]"), act = ROW_KEYS[event.key];
  if (!row || !act || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  event.preventDefault();
  act(row);
});

const picks = () => [...document.querySelectorAll(".pick input[name=runs]")];

function countPicks() {
  const chosen = picks().filter((box) => box.checked).length;
  write(document.querySelector("[data-chosen]"), chosen ? `${chosen} run${chosen > 1 ? "s" : ""} selected` : "no run selected");
}
document.addEventListener("change", ({ target }) => {
  if (target.matches("[data-pick-all]")) for (const box of picks()) box.checked = target.checked;
  if (target.closest(".pick")) countPicks();
});
if (picks().some((box) => box.checked)) countPicks();

const feed = new RunsFeed();
let ready = false;
setTimeout(() => (ready = true), 2000);
feed.addEventListener("runs", ({ detail }) => {
  workspace?.arrived(detail.map((run) => run.id));
  for (const run of detail) {
    if (document.querySelector(`tr[data-run="${CSS.escape(run.id)}"]`)) update(run);
    else if (ready && (Date.now() - new Date(run.created_at)) < 120000) fresh();
  }
});
feed.addEventListener("resync", refresh);
feed.start();

/* Selected rows stay selected. */
function refresh() {
  if (picks().some((box) => box.checked)) reveal(document.querySelector("[data-new-runs]"));
  else readAgain().then(() => workspace?.show());
}

/* A run that is not in the table: shows it if the table is unfiltered and on the first page, otherwise offers to. */
function fresh() {
  const query = new URLSearchParams(location.search);
  if ([...query.keys()].every((word) => CHART_WORDS.includes(word))) refresh();
  else reveal(document.querySelector("[data-new-runs]"));
}

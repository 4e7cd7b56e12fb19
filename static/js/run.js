/* A run's pages: one feed, and the components of the page. A component has delta(message, unknown metrics), again(fresh page), or both. */

import { reveal } from "./announce.js";
import { atMost, data } from "./dom.js";
import { ChartBoard } from "./charts.js";
import { count } from "./format.js";
import { leadsOf } from "./charts/leads.js";
import { View } from "./charts/view.js";
import { RunFeed } from "./live.js";
import { SeriesStore } from "./series.js";
import { Checkpoints } from "./run/checkpoints.js";
import { Curves } from "./run/curves.js";
import { Episodes } from "./run/episodes.js";
import { Header } from "./run/header.js";
import { headline } from "./run/headline.js";
import { Logs } from "./run/logs.js";
import { Marks } from "./run/marks.js";
import { Panels } from "./run/panels.js";
import { PanelBoard } from "./panels/board.js";
import { notes } from "./run/notes.js";
import { readAgain } from "./run/regions.js";
import { ENDED } from "./run/states.js";
import { tiles, tilesAgain } from "./run/tiles.js";
import { WideCurves } from "./run/wide-curves.js";

const page = data("run-page");
const run = { id: page.id, summary: page.summary };
const store = new SeriesStore(run.id);
const marks = new Marks(page.marks ?? []);
const ended = () => ENDED.includes(run.summary.state);

const parts = [new Header(run), new Episodes(run.id), new Logs(run.id), new Checkpoints(), marks];
let board = null, curves = null;
if (page.charts) {
  const view = new View(page.axes), built = data("panel-board");
  if (built) parts.push(new Panels(new PanelBoard(built, view, "curve-panels")));
  board = new ChartBoard(store, {
    view,
    alive: () => !ended(),
    marks: () => marks.list,
    name: run.id,
    csv: (keys) => `/api/v1/runs/${run.id}/series/export/?${new URLSearchParams({ keys: keys.join(",") })}`,
    leads: leadsOf(page.leads ?? []),
    onPick: (step, origin = run.id) => step !== undefined && document.querySelector("[data-episode-count]") && location.assign(`/runs/${origin}/transcripts/?iteration=${step}`),
  });
  curves = document.querySelector("[data-charts-end]") ? new WideCurves(board, page.charts) : new Curves(board, page.charts, page.whole);
  parts.push(curves);
  tiles(store, page.versus);
}
headline();
notes(run, () => board?.step ?? null);
if (page.series) store.put(page.series);

/* Regions that only the server can render: after a change of state or attempt, and when the base model has been evaluated. */
function outdated({ run: now, points }) {
  const before = run.summary;
  const evaluated = document.querySelector("[data-not-evaluated]") && ("eval/success" in points || "eval_sampled/success" in points);
  const judged = JSON.stringify(now.findings) !== JSON.stringify(before.findings);
  return judged || now.state !== before.state || now.attempts.length !== before.attempts.length || evaluated;
}

/* The overview is read again when there are new metrics, and when there are the first transcripts or checkpoints. */
const known = page.known && new Set(page.known);
function grown({ points, episodes, checkpoints }) {
  if (!known) return false;
  const fresh = Object.keys(points).filter((key) => !known.has(key));
  for (const key of fresh) known.add(key);
  return fresh.length > 0 || (episodes.length > 0 && (!document.querySelector("[data-episode-count]") || !document.querySelector("[data-charts-follow] > *")))
    || (checkpoints.length > 0 && !document.querySelector("[data-checkpoint-count]"));
}

/* media.js reads the values on the page of media. */
function mediaGrown(stored) {
  const mark = document.querySelector("[data-media-count]");
  if (mark) mark.textContent = count(stored);
  else readSoon();
  document.dispatchEvent(new CustomEvent("mediagrown"));
}

async function readFresh() {
  const fresh = await readAgain();
  marks.again(fresh);
  curves?.again?.(fresh);
  tilesAgain(store);
}
const readSoon = atMost(3000, readFresh);

/* A delta without the points of a run with many metrics: the visible series are read again, the others when they become visible. */
const again = atMost(2000, () => {
  const shown = new Set([...(board?.keys ?? []), ...[...document.querySelectorAll("[data-figure]")].map((figure) => figure.dataset.figure)]);
  store.retain(shown);
  store.loadAgain().catch(() => {});
});

export const feed = new RunFeed(run.id, page.cursor);
feed.addEventListener("delta", ({ detail }) => {
  if (outdated(detail)) readFresh();
  else if (grown(detail)) readSoon();
  if (detail.run.media !== run.summary.media) mediaGrown(detail.run.media);
  run.summary = detail.run;
  if (detail.more) again();
  const unknown = store.add(detail.points);
  for (const part of parts) part.delta?.(detail, unknown);
  for (const notice of document.querySelectorAll("[data-annotated]")) {
    if (detail.annotated.includes(Number(notice.dataset.annotated))) reveal(notice);
  }
});
feed.addEventListener("resync", async () => {
  const [{ value: fresh }] = await Promise.allSettled([readAgain(), store.loadAgain()]);
  if (fresh) run.summary = fresh.summary;
  for (const part of parts) part.again?.(fresh);
});
feed.start();
performance.mark("interactive");

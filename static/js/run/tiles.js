/* Tiles that follow the last point of their series. */

import { insertionIndex } from "../charts/axis.js";
import { split } from "../charts/smoothing.js";
import { count, figure as format, signed } from "../format.js";
import { SeriesStore } from "../series.js";

const MOST_POINTS = 10000;

/* Reads the series of tiles that have been added to the page. */
export function tilesAgain(store) {
  store.load([...document.querySelectorAll("[data-figure]")].map((figure) => figure.dataset.figure).filter(Boolean)).catch(() => {});
}

/* `versus`: {id, keys} of the parent of a fork, whose values are compared; null if there is none. */
export function tiles(store, versus) {
  const parent = versus && new SeriesStore(versus.id, { points: MOST_POINTS });
  store.addEventListener("change", ({ detail }) => {
    for (const figure of document.querySelectorAll("[data-figure]")) if (detail.has(figure.dataset.figure)) show(figure, store, parent);
  });
  parent?.load(versus.keys).then(() => {
    for (const figure of document.querySelectorAll("[data-figure]")) show(figure, store, parent);
  }, () => {});
}

function show(figure, store, parent) {
  const key = figure.dataset.figure, ends = store.ends(key);
  if (!ends) return;
  figure.querySelector(".value").textContent = format(ends.last, key);
  const compared = figure.querySelector("[data-versus]");
  if (compared) against(compared, current(store.get(key)), current(parent?.get(key)));
  const change = figure.querySelector("[data-change]");
  if (change && ends.moved === null) change.textContent = "";
  else if (change) mark(change, ends.moved, `since ${change.dataset.change}`);
}

/* The latest value against the parent's at the same step, or at its last step before; as in webapp/run_pages/overview.py. */
function against(element, own, theirs) {
  if (!own.steps.length || !theirs.steps.length) return;
  const step = own.steps.at(-1), after = insertionIndex(theirs.steps, step + 1);
  if (!after) return;
  const at = count(theirs.steps[after - 1]), ended = theirs.steps.at(-1) < step;
  mark(element, own.values.at(-1) - theirs.values[after - 1], ended ? `vs parent's last, step ${at}` : `vs parent at step ${at}`);
}

function mark(element, change, words) {
  element.textContent = `${signed(change)} ${words}`;
  element.classList.toggle("good", change > 0 && "up" in element.dataset);
  element.classList.toggle("bad", change < 0 && "up" in element.dataset);
}

/* Steps and values of the finite points that no later attempt has replaced. */
function current(columns) {
  const indices = columns ? split(columns).current.filter((index) => Number.isFinite(columns.values[index])) : [];
  return { steps: indices.map((index) => columns.steps[index]), values: indices.map((index) => columns.values[index]) };
}

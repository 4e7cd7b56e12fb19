/* One crosshair for all charts: a line on each at the pointer's position, and the values there in their legends. */

import { el } from "../dom.js";
import { figure } from "../format.js";
import { insertionIndex } from "./axis.js";

/* Draws or moves the line of a chart; returns false if x is outside the visible range. */
export function crosshairAt(plot, x) {
  const axis = plot._fullLayout?.xaxis, line = plot.querySelector(".crosshair") ?? plot.appendChild(el("div", { class: "crosshair", "aria-hidden": "true" }));
  const left = axis ? axis.d2p(x) : NaN;
  line.hidden = !(left >= 0 && left <= axis._length);
  if (line.hidden) return;
  const { t, h } = plot._fullLayout._size;
  line.style.left = `${axis._offset + left}px`;
  line.style.top = `${t}px`;
  line.style.height = `${h}px`;
}

export function crosshairGone(plot) {
  plot.querySelector(".crosshair")?.remove();
}

/* Values of the main lines nearest to x, by key, as text; and the step there. Before a fork, those of its parent. */
export function valuesAt(plot, x) {
  const readings = { step: null, values: new Map() }, distances = new Map();
  for (const trace of plot.data ?? []) {
    if (!trace.meta || !trace.x.length) continue;
    const index = nearest(trace.x, x), [value, step] = trace.customdata[index], distance = Math.abs(trace.x[index] - x);
    if (distance > distances.get(trace.meta)) continue;
    distances.set(trace.meta, distance);
    readings.values.set(trace.meta, value);
    readings.step = step;
  }
  return readings;
}

function nearest(xs, x) {
  const after = insertionIndex(xs, x);
  if (after === xs.length) return after - 1;
  return after && x - xs[after - 1] < xs[after] - x ? after - 1 : after;
}

/* Shows the last values again. */
export function lastValues(element, store) {
  for (const item of element.querySelectorAll("[data-last]")) {
    const values = store.get(item.dataset.last)?.values ?? [];
    item.textContent = values.length ? figure(values.at(-1), item.dataset.last) : "";
  }
}

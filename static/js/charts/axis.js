/* Position of a point on the x axis: its step, its time, or the run's progress then (tokens, episodes, …). */

import { zoneShift } from "../times.js";

/* {x(step, time), nearestStep(x)}: x in units of the axis, NaN if unknown. `progress`: the columns of the axis's metric. */
export function axisOf(kind, progress) {
  if (kind === "step") return { x: (step) => step };
  if (kind === "time") return { x: (_, time) => local(time) };
  const known = progress ? rising(progress) : { steps: [], values: [] };
  return { x: (step) => interpolated(known, step) };
}

/* Milliseconds for an axis that shows the time of the browser's zone. */
function local(seconds) {
  return seconds * 1000 + zoneShift(seconds * 1000);
}

/* One value per step, the latest attempt's; columns are sorted by (step, attempt). */
function rising({ steps, values }) {
  const last = new Map();
  steps.forEach((step, index) => Number.isFinite(values[index]) && last.set(step, values[index]));
  return { steps: [...last.keys()], values: [...last.values()] };
}

/* Linear between known steps, from 0 at step 0; unknown beyond the last. */
function interpolated({ steps, values }, step) {
  const after = steps.length ? insertionIndex(steps, step) : 0;
  if (steps[after] === step) return values[after];
  if (after === steps.length) return NaN;
  const [left, low] = after ? [steps[after - 1], values[after - 1]] : [0, 0];
  return low + ((values[after] - low) * (step - left)) / (steps[after] - left);
}

/* Index of the first value that is at least `wanted`. */
export function insertionIndex(sorted, wanted) {
  let low = 0, high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < wanted) low = middle + 1;
    else high = middle;
  }
  return low;
}

/* Position of a mark: on a time axis, events are at their time and other marks at the time of their step. */
export function markPlace(mark, kind, axis, columns) {
  if (kind === "time") {
    if (mark.kind !== "note" && mark.kind !== "finding") return local(mark.time);
    const index = columns && mark.step !== null ? Math.min(insertionIndex(columns.steps, mark.step), columns.steps.length - 1) : -1;
    return index < 0 ? null : local(columns.times[index]);
  }
  if (mark.step === null) return null;
  const x = axis.x(mark.step);
  return Number.isFinite(x) ? x : null;
}

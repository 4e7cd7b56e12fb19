/* Moving averages and bands over points and over buckets of points. */

import { attemptStarts } from "../series.js";

const WINDOWS = 60, LEAST = 4;

/* The main line, and the points that a later attempt has replaced, both as indices into the columns. */
export function split(columns) {
  const starts = attemptStarts(columns);
  const current = [], superseded = [];
  columns.steps.forEach((step, index) => {
    const again = starts.some(([later, start]) => later > columns.attempts[index] && start <= step);
    (again ? superseded : current).push(index);
  });
  return { current, superseded };
}

/* Finite points as buckets of one: {steps, times, means, lows, highs, counts}. */
export function asBuckets(columns, indices) {
  const kept = indices.filter((index) => Number.isFinite(columns.values[index]));
  const values = kept.map((index) => columns.values[index]);
  return {
    steps: kept.map((index) => columns.steps[index]), times: kept.map((index) => columns.times[index]),
    means: values, lows: values, highs: values, counts: values.map(() => 1),
  };
}

/* Exponential moving average of buckets, as if every point in a bucket had its mean; corrected for the bias of its start. */
export function smooth({ means, counts }, weight) {
  let sum = 0, mass = 0;
  return means.map((mean, index) => {
    const kept = weight ** counts[index];
    sum = kept * sum + (1 - kept) * mean;
    mass = kept * mass + (1 - kept);
    return sum / mass;
  });
}

/* Merges buckets: at most WINDOWS, each of at least LEAST neighbours; otherwise a band would be a line. */
export function windows(buckets) {
  const size = Math.max(LEAST, Math.ceil(buckets.steps.length / WINDOWS));
  const found = { steps: [], times: [], lows: [], highs: [] };
  for (let first = 0; first < buckets.steps.length; first += size) {
    const end = Math.min(first + size, buckets.steps.length), middle = (first + end - 1) >> 1;
    found.steps.push(buckets.steps[middle]);
    found.times.push(buckets.times[middle]);
    found.lows.push(Math.min(...buckets.lows.slice(first, end)));
    found.highs.push(Math.max(...buckets.highs.slice(first, end)));
  }
  return found;
}

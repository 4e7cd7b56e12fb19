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
  const finite = indices.filter((index) => Number.isFinite(columns.values[index]));
  const values = finite.map((index) => columns.values[index]);
  return {
    steps: finite.map((index) => columns.steps[index]), times: finite.map((index) => columns.times[index]),
    means: values, lows: values, highs: values, counts: values.map(() => 1),
  };
}

/* Exponential moving average of buckets, as if every point in a bucket had its mean; corrected for the bias of its start. */
export function smooth({ means, counts }, weight) {
  let sum = 0, mass = 0;
  return means.map((mean, index) => {
    const decay = weight ** counts[index];
    sum = decay * sum + (1 - decay) * mean;
    mass = decay * mass + (1 - decay);
    return sum / mass;
  });
}

/* Merges buckets: at most WINDOWS, each of at least LEAST neighbours; otherwise a band would be a line. */
export function windows(buckets) {
  const size = Math.max(LEAST, Math.ceil(buckets.steps.length / WINDOWS));
  const merged = { steps: [], times: [], lows: [], highs: [] };
  for (let first = 0; first < buckets.steps.length; first += size) {
    const end = Math.min(first + size, buckets.steps.length), middle = (first + end - 1) >> 1;
    merged.steps.push(buckets.steps[middle]);
    merged.times.push(buckets.times[middle]);
    merged.lows.push(Math.min(...buckets.lows.slice(first, end)));
    merged.highs.push(Math.max(...buckets.highs.slice(first, end)));
  }
  return merged;
}

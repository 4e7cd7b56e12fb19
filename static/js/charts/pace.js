/* Rate of drawing: the time of the last drawings of visible charts stays a fixed share of the browser's time. */

const SHORTEST = 30, LONGEST = 1000;
const SHARE = 1 / 2;
const costs = new Map();

/* Milliseconds between two drawings of a chart. */
export function interval() {
  const whole = [...costs.values()].reduce((sum, cost) => sum + cost, 0);
  return Math.min(LONGEST, Math.max(SHORTEST, whole / SHARE));
}

/* Duration of drawing a chart in milliseconds; null: it is not visible. */
export function took(chart, cost) {
  if (cost === null) costs.delete(chart);
  else costs.set(chart, cost);
}

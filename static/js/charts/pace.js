/* How often charts are drawn: what the last drawings of those in sight took is a share of the browser's time. */

const SHORTEST = 30, LONGEST = 1000;
const SHARE = 1 / 3;
const costs = new Map();

/* Milliseconds between two drawings of a chart. */
export function interval() {
  const whole = [...costs.values()].reduce((sum, cost) => sum + cost, 0);
  return Math.min(LONGEST, Math.max(SHORTEST, whole / SHARE));
}

/* What drawing a chart took, in milliseconds; null: it is out of sight. */
export function took(chart, cost) {
  if (cost === null) costs.delete(chart);
  else costs.set(chart, cost);
}

/* The visible range of the y axis. */

const LEAST = 20;

/* Bounds that exclude outliers: the middle 90 % and half their spread on either side, within the data.
   There are none for fewer than LEAST values. */
function withoutOutliers(values) {
  const sorted = values.filter(Number.isFinite).sort((one, other) => one - other);
  if (!sorted.length) return null;
  const least = sorted[0], greatest = sorted.at(-1);
  if (sorted.length < LEAST) return [least, greatest];
  const low = sorted[Math.floor(0.05 * (sorted.length - 1))], high = sorted[Math.ceil(0.95 * (sorted.length - 1))];
  const spread = (high - low) / 2;
  return [Math.max(least, low - spread), Math.min(greatest, high + spread)];
}

/* {range, outside}: Plotly's range for these values, and the number of values outside it. `fixed`: bounds of the metric. */
export function yRange(values, { most, log, fixed, whole }) {
  const shown = values.filter((value) => Number.isFinite(value) && (!log || value > 0));
  const lost = values.filter(Number.isFinite).length - shown.length;
  if (!shown.length) return { range: null, outside: lost };
  const bounds = most ? withoutOutliers(shown) : fixed && whole && !log ? widened(fixed, shown) : ends(shown);
  const outside = lost + shown.filter((value) => value < bounds[0] || value > bounds[1]).length;
  return { range: log ? padded(bounds.map(Math.log10), 0.1) : padded(visible(bounds), Math.abs(bounds[0]) * 0.1), outside };
}

/* The least and the greatest value. */
export function ends(values) {
  return values.reduce(([low, high], value) => [Math.min(low, value), Math.max(high, value)], [Infinity, -Infinity]);
}

function widened([low, high], values) {
  const [least, greatest] = ends(values);
  return [Math.min(low, least), Math.max(high, greatest)];
}

/* A metric that is always 0, such as a count of errors, gets 0 to 1 and not a range around 0. */
function visible([low, high]) {
  return low === 0 && high === 0 ? [0, 1] : [low, high];
}

function padded([low, high], alone) {
  const equal = high - low <= Math.max(Math.abs(low), Math.abs(high)) * 1e-9; // but for rounding, as by smoothing
  const room = equal ? alone : (high - low) * 0.06;
  return [low - room, high + room];
}

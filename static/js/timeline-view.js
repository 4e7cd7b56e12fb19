/* The visible time window: seconds since the epoch, within the run. Contains no drawing code. */

const SHORTEST = 0.005;
const MARGIN = 0.02;

export class View {
  constructor(start, end, whole) {
    this.whole = whole;
    this.set(start, end);
  }

  get length() {
    return this.end - this.start;
  }

  get followsEnd() {
    return this.end >= this.whole[1];
  }

  /* Sets the window: in order, not shorter than the resolution, and near the run. */
  set(start, end) {
    const [first, last] = this.whole;
    const most = Math.max(SHORTEST, (last - first) * (1 + 2 * MARGIN));
    const length = Math.min(most, Math.max(SHORTEST, end - start));
    const middle = (start + end) / 2;
    const low = first - (last - first) * MARGIN, high = last + (last - first) * MARGIN;
    this.start = Math.min(Math.max(middle - length / 2, low), Math.max(low, high - length));
    this.end = this.start + length;
  }

  /* `factor` below 1 zooms in; `at` (0 to 1) is the fixed position. */
  zoom(factor, at = 0.5) {
    const length = Math.min((this.whole[1] - this.whole[0]) * (1 + 2 * MARGIN), Math.max(SHORTEST, this.length * factor));
    const fixed = this.start + at * this.length;
    this.set(fixed - at * length, fixed + (1 - at) * length);
  }

  /* Pans by a share of the window. */
  pan(share) {
    const by = share * this.length;
    this.set(this.start + by, this.end + by);
  }
}

/* Round steps for an axis: at most `most` ticks over `length` seconds. */
export function tickStep(length, most) {
  const steps = [1, 2, 5].flatMap((base) => [0.001, 0.01, 0.1, 1].map((size) => base * size)).concat([10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400]);
  steps.sort((a, b) => a - b);
  const fitting = steps.find((step) => length / step <= most);
  if (fitting) return fitting;
  return 86400 * Math.ceil(length / most / 86400);
}

/* Seconds since the run's first span as text: 4.25 s, 3:05, 1:02:40. */
export function elapsed(seconds, step = 1) {
  const sign = seconds < 0 ? "−" : "", size = Math.abs(seconds);
  const digits = step >= 1 ? 0 : Math.min(3, Math.ceil(-Math.log10(step) - 1e-9));
  if (size < 60) return `${sign}${size.toFixed(digits)} s`;
  const rounded = Number(size.toFixed(digits));
  const rest = (rounded % 60).toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  const minutes = Math.floor(rounded / 60);
  if (minutes < 60) return `${sign}${minutes}:${rest}`;
  return `${sign}${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}`;
}

/* A duration, with a precision that depends on its length. */
export function stretch(seconds) {
  if (seconds < 1) return `${(seconds * 1000).toFixed(seconds < 0.01 ? 1 : 0)} ms`;
  return seconds < 60 ? `${seconds.toFixed(seconds < 10 ? 2 : 1)} s` : elapsed(seconds);
}

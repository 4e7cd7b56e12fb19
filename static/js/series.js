/* Series of numbers by key, sorted by (step, attempt), each point once. */

import { readJson } from "./requests.js";

const MOST = 6000, MOST_DETAILS = 200;
/* Points of a whole series, as on the overview, and of a part. */
const POINTS = 600, DETAIL_POINTS = 1500;

function read(value) {
  return typeof value === "number" ? value : Number(value);
}

export class SeriesStore extends EventTarget {
  #columns = new Map(); #seen = new Map(); #run; #part; #wanted = new Set(); #details = new Map(); #reading = new Set();

  /* `part`: further parameters of every request, such as {last: 80}. */
  constructor(run, part = {}) {
    super();
    this.#run = run;
    this.#part = part;
  }

  get(key) {
    return this.#columns.get(key) ?? null;
  }

  /* Last value of a key, and its difference from the first finite one; null if there is nothing to compare, or the last is not finite. */
  ends(key) {
    const values = this.get(key)?.values ?? [], known = values.filter(Number.isFinite);
    if (!values.length) return null;
    return { last: values.at(-1), moved: known.length > 1 && Number.isFinite(values.at(-1)) ? known.at(-1) - known[0] : null };
  }

  /* Columns in the server's format: {key: {steps, values, times, attempts}}. */
  put(series) {
    for (const [key, columns] of Object.entries(series)) {
      this.#columns.set(key, numbers(columns));
      const seen = new Set();
      columns.steps.forEach((step, index) => seen.add(mark(step, columns.times[index], columns.attempts[index])));
      this.#seen.set(key, seen);
      this.#wanted.add(key);
    }
    this.#tell(Object.keys(series));
  }

  /* New points by key: [[step, value, time, attempt], …]. Series that were not requested are left out. */
  add(points) {
    const changed = [], unknown = [];
    for (const [key, rows] of Object.entries(points)) {
      if (!this.#wanted.has(key)) {
        unknown.push(key);
        continue;
      }
      for (const row of rows) this.#insert(key, row);
      for (const arrived of this.#reading) arrived.push([key, rows]);
      changed.push(key);
    }
    this.#tell(changed);
    this.#thin(changed);
    return unknown;
  }

  /* Reads whole series through the API: missing ones, or (again) all. */
  async load(keys, { again = false } = {}) {
    const missing = keys.filter((key) => again || !this.#wanted.has(key));
    if (!missing.length) return;
    missing.forEach((key) => this.#wanted.add(key));
    for (let start = 0; start < missing.length; start += 40) {
      const some = missing.slice(start, start + 40);
      await this.#replace(some);
      this.#tell(some);
    }
  }

  /* Replaces series by the server's, and adds the points that arrived in the meantime, which that answer may not contain. */
  async #replace(keys) {
    const arrived = [];
    this.#reading.add(arrived);
    try {
      this.put(await this.#read(keys));
    } finally {
      this.#reading.delete(arrived);
    }
    for (const [key, rows] of arrived) if (keys.includes(key)) for (const row of rows) this.#insert(key, row);
  }

  async #read(keys, more = {}) {
    const query = new URLSearchParams({ keys: keys.join(","), points: POINTS, ...this.#part, ...more });
    return (await readJson(`/api/v1/runs/${this.#run}/series/?${query}`)).series;
  }

  /* A long series between two steps, with more points; null until they are loaded, then it reports a change. */
  detail(key, first, last) {
    const name = `${key} ${first} ${last}`;
    if (this.#details.has(name)) return this.#details.get(name);
    if (this.#details.size >= MOST_DETAILS) this.#details.clear();
    this.#details.set(name, null);
    this.#read([key], { first, last, points: DETAIL_POINTS }).then((series) => {
      this.#details.set(name, numbers(series[key]));
      this.#tell([key]);
    }, () => this.#details.delete(name));
    return null;
  }

  /* Forgets all series but these. */
  retain(keys) {
    for (const key of this.#wanted) {
      if (keys.has(key)) continue;
      for (const part of [this.#wanted, this.#columns, this.#seen]) part.delete(key);
    }
  }

  loadAgain() {
    return this.load([...this.#wanted], { again: true });
  }

  #insert(key, [step, value, time, attempt]) {
    const columns = this.#columns.get(key) ?? { steps: [], values: [], times: [], attempts: [] };
    const seen = this.#seen.get(key) ?? new Set();
    this.#columns.set(key, columns);
    this.#seen.set(key, seen);
    if (seen.has(mark(step, time, attempt))) return;
    seen.add(mark(step, time, attempt));
    let index = columns.steps.length;
    while (index > 0 && after(columns.steps[index - 1], columns.attempts[index - 1], step, attempt)) index -= 1;
    columns.steps.splice(index, 0, step);
    columns.values.splice(index, 0, read(value));
    columns.times.splice(index, 0, time);
    columns.attempts.splice(index, 0, attempt);
    if (columns.buckets && index === columns.steps.length - 1) append(columns.buckets, step, time, read(value));
  }

  #thin(keys) {
    const long = keys.filter((key) => this.get(key).steps.length > MOST);
    if (long.length) this.load(long, { again: true }).catch(() => {});
  }

  #tell(keys) {
    if (keys.length) this.dispatchEvent(new CustomEvent("change", { detail: new Set(keys) }));
  }
}

function numbers(columns) {
  return { ...columns, values: columns.values.map(read) };
}

/* A new last point is a separate bucket. */
function append(buckets, step, time, value) {
  if (!Number.isFinite(value)) return;
  for (const [name, figure] of Object.entries({ steps: step, times: time, means: value, lows: value, highs: value, counts: 1 })) buckets[name].push(figure);
}

/* Times of long series are rounded to milliseconds, those of new points are not. */
function mark(step, time, attempt) {
  return `${step} ${Math.round(time * 1000)} ${attempt}`;
}

function after(step, attempt, otherStep, otherAttempt) {
  return step > otherStep || (step === otherStep && attempt > otherAttempt);
}

/* The first step of each attempt after the first: [[attempt, step], …]. */
export function attemptStarts(columns) {
  const starts = new Map();
  columns.attempts.forEach((attempt, index) => {
    if (!starts.has(attempt) || columns.steps[index] < starts.get(attempt)) starts.set(attempt, columns.steps[index]);
  });
  return [...starts].filter(([attempt]) => attempt > Math.min(...starts.keys()));
}

/* Formats of numbers, times and sizes; webapp/common/formats.py is the same on the server. */

/* Metrics that count something, also with a measure (":max"); their means need not be whole numbers. */
const COUNTS = new RegExp([
  "^(progress/.+|rollout/(failed|overlong|dropped|rejected|waiting|left_out)",
  "|(eval|eval_sampled)/(failed|overlong|unscored)|rewards/(timeouts|unscored)",
  "|((eval|eval_sampled)/)?judge/(requests|cached|failures|\\w+_tokens)",
  "|policy/[^/]+/(tokens|computed_tokens|micro_batch_tokens|trained_groups|skipped_steps|overflowed_steps)",
  "|buffer/(current_size|max_size|total_\\w+|open_groups|ready_groups|groups_\\w+))(:\\w+)?$",
].join(""));
/* Metrics that Troupe averages over episodes: NaN if an iteration has no complete episode. */
const AVERAGES = /^(train|eval|eval_sampled)\/(return|success|length|[^/]+\/reward)(:\w+)?$/;
const WORDS = { NaN: "NaN", Infinity: "∞", "-Infinity": "−∞" };

export function number(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "string") return WORDS[value] ?? value;
  if (!Number.isFinite(value)) return WORDS[String(value)];
  return finite(value).replaceAll("-", "−");
}

const LARGE = 1e12; // numbers of at least this size have an exponent, so that they fit their cell

function large(value) {
  return value.toExponential(2).replace("e+", "e").replaceAll("-", "−");
}

function finite(value) {
  const size = Math.abs(value);
  if (size >= LARGE) return large(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  if (size >= 100) return value.toFixed(1);
  if (size >= 0.01 || size === 0) return (value || 0).toFixed(2); // 0 for -0
  return size >= 0.001 ? value.toFixed(4) : value.toExponential(1);
}

/* The value of the metric `key`: a count without decimals, and NaN of an average of episodes as missing. */
export function figure(value, key = "") {
  if ((value === "NaN" || Number.isNaN(value)) && AVERAGES.test(key)) return number(null);
  return Number.isInteger(value) && COUNTS.test(key) ? count(value) : number(value);
}

export function change(value, key = "") {
  return (value > 0 ? "+" : "") + figure(value, key);
}

export function hours(value) {
  return value > 0 && value < 0.01 ? "< 0.01" : number(value);
}

/* A fixed number of decimals, for columns of related numbers. */
export function fixed(value, digits) {
  if (!Number.isFinite(value)) return number(value);
  return Math.abs(value) >= LARGE ? large(value) : value.toFixed(digits).replace(/^-(?=[0.]*$)/, "").replaceAll("-", "−");
}

export function count(value) {
  if (value === null || value === undefined) return "–";
  return Math.abs(value) >= LARGE ? large(value) : value.toLocaleString("en-US").replaceAll("-", "−");
}

export function signed(value) {
  return (value > 0 ? "+" : "") + number(value);
}

export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const whole = Math.max(0, Math.round(seconds));
  for (const [size, name, below, belowName] of [[86400, "d", 3600, "h"], [3600, "h", 60, "min"], [60, "min", 1, "s"]]) {
    if (whole < size) continue;
    const rest = Math.floor((whole % size) / below);
    return `${Math.floor(whole / size)} ${name}` + (rest ? ` ${rest} ${belowName}` : "");
  }
  return `${whole} s`;
}

export function ago(moment) {
  const past = (Date.now() - new Date(moment).getTime()) / 1000;
  return past < 5 ? "just now" : `${duration(past).split(" ").slice(0, 2).join(" ")} ago`;
}

export function bytes(count) {
  if (count === null || count === undefined) return "–";
  let value = count, unit = "B";
  for (const larger of ["kB", "MB", "GB", "TB"]) {
    if (value < 1000) break;
    value /= 1000;
    unit = larger;
  }
  return `${unit === "B" || value >= 100 ? value.toFixed(0) : value.toFixed(1)} ${unit}`;
}

/* Formats of numbers, times and sizes; webapp/common/formats.py is the same on the server. */

const WORDS = { NaN: "NaN", Infinity: "∞", "-Infinity": "−∞" };

export function number(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "string") return WORDS[value] ?? value;
  if (!Number.isFinite(value)) return WORDS[String(value)];
  return finite(value).replaceAll("-", "−");
}

function finite(value) {
  const size = Math.abs(value);
  if (size >= 1000) return Math.round(value).toLocaleString("en-US");
  if (size >= 100) return value.toFixed(1);
  if (size >= 0.01 || size === 0) return value.toFixed(2);
  return size >= 0.001 ? value.toFixed(4) : value.toExponential(1);
}

/* A fixed number of decimals, for columns of related numbers. */
export function fixed(value, digits) {
  return Number.isFinite(value) ? value.toFixed(digits).replaceAll("-", "−") : number(value);
}

export function count(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en-US");
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

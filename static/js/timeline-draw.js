/* The lanes on a canvas: an axis, a row per lane with its device's load, and a strip of waits by iteration. */

import { elapsed, tickStep } from "./timeline-view.js";

const TOP = 38, BAR = 20, LOAD = 16, GAP = 8, THIN = 7, STRIP = 40;
export const CARPET = 24;
const FAINT_WIDTH = 30;

/* Merges many lanes into one per device: workers that share a device are in one row, in the order of time. */
export function carpeted(lanes) {
  if (lanes.length <= CARPET) return lanes;
  const rows = new Map();
  for (const lane of lanes) {
    const key = lane.device ?? lane.label, row = rows.get(key);
    if (!row) rows.set(key, lane);
    else rows.set(key, { ...row, label: `${row.label}, ${lane.label}`, spans: [...row.spans, ...lane.spans].sort((a, b) => a.start - b.start) });
  }
  return [...rows.values()];
}

/* Layout in CSS pixels. Beyond CARPET lanes each is one thin row. */
export function layout(lanes, width, carpet) {
  const gutter = width < 700 ? 84 : 168;
  let y = TOP;
  const rows = lanes.map((lane) => {
    const load = !carpet && lane.utilisation?.length ? LOAD : 0;
    const row = { y, bar: carpet ? THIN - 1 : BAR, load, height: carpet ? THIN : BAR + load + GAP };
    y += row.height;
    return row;
  });
  return { gutter, carpet, rows, width, strip: y + GAP, height: y + GAP + STRIP + 4 };
}

export function laneAt(lanesLayout, y) {
  return lanesLayout.rows.findIndex((row) => y >= row.y && y < row.y + row.height);
}

/* Current colours of the page. */
export function palette(root, phases) {
  const probe = root.appendChild(document.createElement("span"));
  probe.hidden = true;
  const colour = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const colours = Object.fromEntries(["ink", "ink-2", "ink-3", "border", "border-strong", "bg", "accent", "warn", "panel"].map((name) => [name, colour(name)]));
  colours.phases = Object.fromEntries(phases.map((phase) => {
    probe.dataset.phase = phase;
    return [phase, colour("phase")];
  }));
  probe.remove();
  return colours;
}

export function draw(context, lanesLayout, view, shown, colours, pointer) {
  const scale = window.devicePixelRatio || 1;
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, lanesLayout.width, lanesLayout.height);
  const inner = lanesLayout.width - lanesLayout.gutter;
  const x = (moment) => lanesLayout.gutter + ((moment - view.start) / view.length) * inner;
  const pen = { context, lanesLayout, view, shown, colours, x, inner };
  labels(pen);
  context.save();
  context.beginPath();
  context.rect(lanesLayout.gutter, 0, inner, lanesLayout.height);
  context.clip();
  axis(pen);
  lanesLayout.rows.forEach((row, index) => lane(pen, row, shown.lanes[index]));
  waits(pen);
  if (pointer) cross(pen, pointer);
  context.restore();
}

function font(context, size, weight = "") {
  context.font = `${weight} ${size}px ${getComputedStyle(document.body).fontFamily}`;
}

function labels({ context, lanesLayout, shown, colours }) {
  context.textBaseline = "middle";
  context.textAlign = "left";
  font(context, 12);
  let group = null;
  lanesLayout.rows.forEach((row, index) => {
    const lane = shown.lanes[index];
    let text = lane.label;
    if (lanesLayout.carpet) {
      text = lane.worker.replace(/[-_ ]?\d+$/, "");
      if (text === group) return;
      group = text;
    }
    context.fillStyle = colours["ink-2"];
    context.fillText(fitted(context, text, lanesLayout.gutter - 12), 0, row.y + row.bar / 2 + 0.5);
  });
  context.fillStyle = colours["ink-3"];
  context.fillText("waited", 0, lanesLayout.strip + STRIP / 2);
}

function fitted(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let shorter = text;
  while (shorter.length > 2 && context.measureText(`${shorter}…`).width > width) shorter = shorter.slice(0, -1);
  return `${shorter}…`;
}

function axis({ context, lanesLayout, view, shown, colours, x, inner }) {
  const step = tickStep(view.length, Math.max(2, inner / 90));
  const zero = shown.run_start;
  font(context, 11);
  context.textBaseline = "middle";
  for (let tick = Math.ceil((view.start - zero) / step); zero + tick * step <= view.end; tick += 1) {
    const at = Math.round(x(zero + tick * step)) + 0.5;
    line(context, colours.border, at, 16, at, lanesLayout.strip - 4);
    context.fillStyle = colours["ink-3"];
    context.textAlign = at < lanesLayout.gutter + 20 ? "left" : at > lanesLayout.width - 20 ? "right" : "center";
    context.fillText(elapsed(tick * step, step), at, 8);
  }
  let free = -Infinity;
  context.textAlign = "left";
  for (const iteration of shown.iterations) {
    if (iteration.end < view.start || iteration.start > view.end) continue;
    const at = Math.round(x(iteration.start)) + 0.5;
    const text = String(iteration.iteration);
    const crowded = at < free;
    if (!crowded || x(iteration.end) - at > FAINT_WIDTH) line(context, colours["border-strong"], at, 20, at, lanesLayout.strip - 4);
    if (crowded) continue;
    context.fillStyle = colours["ink-2"];
    const shownAt = Math.max(at + 3, lanesLayout.gutter + 2);
    context.fillText(text, shownAt, 27);
    free = shownAt + context.measureText(text).width + 8;
  }
}

function line(context, colour, x0, y0, x1, y1) {
  context.strokeStyle = colour;
  context.lineWidth = 1;
  context.beginPath();
  context.moveTo(x0, y0);
  context.lineTo(x1, y1);
  context.stroke();
}

function lane({ context, lanesLayout, view, colours, x, inner }, row, { spans, utilisation }) {
  context.fillStyle = colours.bg;
  context.fillRect(lanesLayout.gutter, row.y, inner, row.bar);
  const last = {};
  for (const span of spans) {
    if (span.end < view.start || span.start > view.end) continue;
    const from = Math.max(lanesLayout.gutter - 1, x(span.start)), to = Math.min(lanesLayout.width + 1, x(span.end));
    const drawn = Math.max(from, last[span.phase] ?? -Infinity), width = Math.max(0.75, to - drawn);
    if (to <= drawn && to - from < 0.75) continue;
    context.fillStyle = colours.phases[span.phase] ?? colours["ink-3"];
    context.fillRect(drawn, row.y, width, row.bar);
    last[span.phase] = drawn + width;
  }
  if (row.load) load(context, lanesLayout, row, utilisation, x, colours, inner);
}

/* Load of the lane's device from 0 to 100%, held until the next sample. */
function load(context, lanesLayout, row, samples, x, colours, inner) {
  const bottom = row.y + row.bar + row.load;
  context.beginPath();
  let open = false, before = 0, held = bottom;
  for (const [moment, percent] of samples) {
    const at = x(moment), up = bottom - (Math.min(100, percent) / 100) * (row.load - 2);
    if (at < lanesLayout.gutter - inner || at > lanesLayout.width + inner) continue;
    if (open) context.lineTo(at, held);
    else context.moveTo(at, bottom);
    context.lineTo(at, up);
    [open, before, held] = [true, at, up];
  }
  if (!open) return;
  context.lineTo(before, bottom);
  context.closePath();
  context.globalAlpha = 0.35;
  context.fillStyle = colours["ink-3"];
  context.fill();
  context.globalAlpha = 1;
  line(context, colours.border, lanesLayout.gutter, bottom + 0.5, lanesLayout.width, bottom + 0.5);
}

/* One bar per iteration: the mean share of it that its workers waited. */
function waits({ context, lanesLayout, view, shown, colours, x, inner }) {
  const bottom = lanesLayout.strip + STRIP;
  context.fillStyle = colours.bg;
  context.fillRect(lanesLayout.gutter, lanesLayout.strip, inner, STRIP);
  context.globalAlpha = 0.7;
  context.fillStyle = colours.warn;
  for (const iteration of shown.iterations) {
    if (iteration.end < view.start || iteration.start > view.end) continue;
    const from = x(iteration.start), width = Math.max(0.75, x(iteration.end) - from - 1);
    context.fillRect(from, bottom - iteration.mean * STRIP, width, iteration.mean * STRIP);
  }
  context.globalAlpha = 1;
}

function cross({ context, lanesLayout, colours }, pointer) {
  line(context, colours.accent, Math.round(pointer.x) + 0.5, 18, Math.round(pointer.x) + 0.5, lanesLayout.strip + STRIP);
}

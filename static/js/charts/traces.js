/* One series of a chart as Plotly's traces: replaced points (dotted), every point or a band (faint), the main line (last). */

import { faint, toneColour } from "./colours.js";
import { escapeHtml } from "./marks.js";
import { asBuckets, smooth, split, windows } from "./smoothing.js";
import { count, figure } from "../format.js";

const FEW = 24;
const BASE = { type: "scatter", mode: "lines", cliponaxis: true, showlegend: false, connectgaps: false, hoverinfo: "skip" };

export function tracesOf(line, columns, axis, view) {
  const tone = toneColour(line.tone), xs = columns.steps.map((step, index) => axis.x(step, columns.times[index]));
  const { current, superseded } = split(columns);
  const points = (indices) => ({ x: indices.map((index) => xs[index]), y: indices.map((index) => columns.values[index]) });
  const traces = [];
  if (superseded.length) traces.push({ ...BASE, ...points(superseded), line: { color: faint(tone, 0.4), width: 1, dash: "dot" } });
  const many = current.length >= FEW, weight = many ? view.smooth : 0;
  const buckets = columns.buckets ?? asBuckets(columns, current);
  if (many && view.under === "band") traces.push(...band(windows(buckets), axis, tone));
  else if (weight > 0 && view.under === "raw") traces.push({ ...BASE, ...points(current), line: { color: faint(tone, 0.28), width: 1 } });
  traces.push(weight > 0 ? smoothed(line, buckets, weight, axis, tone, view) : plain(line, points(current), current, columns, tone, view));
  return traces;
}

/* The curve of an ancestor before the fork: like the line that it leads to, but faint. `label` names the ancestor. */
export function leadTrace(line, columns, axis, view, { id, label }) {
  const tone = faint(toneColour(line.tone), 0.4), { current } = split(columns);
  const weight = current.length >= FEW ? view.smooth : 0, buckets = weight > 0 ? columns.buckets ?? asBuckets(columns, current) : asBuckets(columns, current);
  const x = buckets.steps.map((step, index) => axis.x(step, buckets.times[index]));
  const data = hoverData(line.key, buckets.means, buckets.steps).map((row) => [...row, id]);
  const step = view.x === "step" ? "" : ", step %{customdata[2]}";
  return {
    ...BASE, x, y: weight > 0 ? smooth(buckets, weight) : buckets.means, name: `${line.label} (${label})`, meta: line.key, customdata: data,
    mode: buckets.steps.length < FEW ? "lines+markers" : "lines", marker: { size: 3, color: tone }, line: { color: tone, width: 1.4 }, hoverinfo: undefined,
    hovertemplate: `${escapeHtml(line.label)} %{customdata[0]}${step} (${escapeHtml(label)})<extra></extra>`,
  };
}

function band(windows, axis, tone) {
  const x = windows.steps.map((step, index) => axis.x(step, windows.times[index]));
  const edge = { ...BASE, x, line: { color: faint(tone, 0), width: 0 } };
  return [{ ...edge, y: windows.lows }, { ...edge, y: windows.highs, fill: "tonexty", fillcolor: faint(tone, 0.18) }];
}

function smoothed(line, buckets, weight, axis, tone, view) {
  const x = buckets.steps.map((step, index) => axis.x(step, buckets.times[index]));
  return { ...shown(line, tone, view), x, y: smooth(buckets, weight), customdata: hoverData(line.key, buckets.means, buckets.steps) };
}

function plain(line, points, indices, columns, tone, view) {
  const steps = indices.map((index) => columns.steps[index]);
  return { ...shown(line, tone, view), ...points, mode: steps.length < FEW ? "lines+markers" : "lines", customdata: hoverData(line.key, points.y, steps) };
}

/* The tooltip of a point: its original value and its step. */
function hoverData(key, values, steps) {
  return values.map((value, index) => [figure(value, key), steps[index], count(steps[index])]);
}

function shown(line, tone, view) {
  const step = view.x === "step" ? "" : ", step %{customdata[2]}";
  return {
    ...BASE, name: line.label, marker: { size: 4, color: tone }, line: { color: tone, width: 1.8 }, hoverinfo: undefined,
    hovertemplate: `${escapeHtml(line.label)} %{customdata[0]}${step}<extra></extra>`, meta: line.key,
  };
}

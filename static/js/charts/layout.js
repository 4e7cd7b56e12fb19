/* Axes, grid and colours of a chart. */

import { colour } from "./colours.js";

const FORMATS = { step: ",d", time: "", tokens: "~s", episodes: "~s", env_steps: "~s" };

/* window: [from, to] of x or null; yBounds: Plotly's range or null. */
export function layoutOf(view, window, yBounds) {
  const ink = colour("ink-3");
  const axis = { gridcolor: colour("border"), zeroline: false, linecolor: colour("border"), tickfont: { size: 10, color: ink }, automargin: true };
  const x = { ...axis, showgrid: false, nticks: 6, spikecolor: colour("border-strong"), spikethickness: 1, spikedash: "solid" };
  const y = { ...axis, nticks: 5, fixedrange: true, type: view.logy ? "log" : "linear" };
  if (view.x === "time") x.type = "date";
  else Object.assign(x, { type: view.logx ? "log" : "linear", tickformat: FORMATS[view.x] ?? "~s" });
  if (window) x.range = view.logx ? window.map((value) => Math.log10(Math.max(value, 1e-9))) : window;
  else if (view.x !== "time" && !view.logx) Object.assign(x, { rangemode: "tozero", autorangeoptions: { include: 10 } });
  if (yBounds) y.range = yBounds;
  return {
    margin: { l: 34, r: 8, t: 8, b: 22 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: ink },
    xaxis: x, yaxis: y, hovermode: "x unified", hoverdistance: 30, dragmode: "zoom",
    hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("border"), font: { size: 11, color: colour("ink") } },
  };
}

/* The visible range of the x axis, in its units, after a drag. */
export function windowOf(plot, view) {
  const axis = plot._fullLayout.xaxis, ends = axis.range.map((end) => axis.r2l(end));
  return view.logx ? ends.map((end) => 10 ** end) : ends;
}

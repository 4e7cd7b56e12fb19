/* Curves of groups of runs: mean, band, and N at every point. Read through the API, drawn by Plotly while visible. */

import { colour, faint, forgetColours, toneColour } from "../charts/colours.js";
import { escapeHtml } from "../charts/marks.js";
import { el } from "../dom.js";
import { number } from "../format.js";
import { readJson } from "../requests.js";

const AXES = { step: "step", time: "minutes since the metric's first point", tokens: "tokens", episodes: "episodes", env_steps: "environment steps" };
const DASHES = ["solid", "dash", "dashdot"];
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false };

/* Loads and draws every chart in `root` when it comes near the window; returns the charts. */
export function groupCharts(root) {
  const charts = [...root.querySelectorAll("[data-group-chart]")].map((element) => new GroupChart(element));
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      charts.find((chart) => chart.element === target).load();
    }
  }, { rootMargin: "200px" });
  charts.forEach((chart) => watcher.observe(chart.element));
  const redraw = () => {
    forgetColours();
    charts.forEach((chart) => chart.draw());
  };
  document.addEventListener("themechange", redraw);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  return charts;
}

class GroupChart {
  #plot; #data = null;

  constructor(element) {
    this.element = element;
    this.#plot = element.querySelector(".plot");
  }

  async load() {
    try {
      this.show(this.given() ?? await readJson(this.element.dataset.source));
    } catch (error) {
      if (!this.#data) this.#plot.replaceChildren(el("p", { class: "nothing" }, `not loaded: ${error.message}`));
    }
  }

  /* Reads its numbers again, if it has been visible. */
  async again() {
    if (this.#data) await this.load();
  }

  /* Numbers that are part of this page or of a fresher one. */
  given(element = this.element) {
    const brought = element.querySelector("script[type='application/json']");
    return brought ? JSON.parse(brought.textContent) : null;
  }

  show(data) {
    this.#data = data;
    this.#legend();
    this.draw();
  }

  get plot() {
    return this.#plot;
  }

  draw() {
    if (!this.#data) return;
    if (!this.#data.axis.length) {
      this.#plot.replaceChildren(el("p", { class: "nothing" }, "no points on this axis"));
      return;
    }
    this.#plot.querySelector(".wait")?.remove();
    const time = this.#data.x === "time";
    const axis = this.#data.axis.map((value) => (time ? value / 60 : value));
    const traces = this.#data.groups.flatMap((group, index) => [...band(group, axis), ...lines(group, axis, index)]);
    const means = this.#data.groups.flatMap((group, index) => mean(group, axis, index, this.#data));
    Plotly.react(this.#plot, [...traces, ...means], layout(this.#data, "log" in this.element.dataset), CONFIG);
  }

  #legend() {
    const { groups, left_out: leftOut, without } = this.#data;
    this.element.querySelector("[data-legend]").replaceChildren(...groups.map((group) => (
      el("li", { title: group.runs.map((run) => `${run.name} ${run.id}`).join("\n") },
        el("span", { class: "swatch", "data-tone": group.tone }), group.label, " ", el("span", { class: "quiet" }, `N ${group.n}`))
    )));
    const mark = this.element.closest("section")?.querySelector("[data-left-out]");
    const notes = [leftOut && `${leftOut} points not finite`, without.length && `${without.length} without it`].filter(Boolean);
    if (mark && notes.length) {
      mark.hidden = false;
      mark.textContent = notes.join(", ");
    }
  }
}

const BASE = { type: "scatter", mode: "lines", cliponaxis: false, showlegend: false, connectgaps: false, hoverinfo: "skip" };

/* Lower and upper bound as one filled outline for each interval with bounds. */
function band(group, axis) {
  if (!group.low) return [];
  const tone = toneColour(group.tone), traces = [];
  for (const [from, to] of stretches(group.low)) {
    const x = axis.slice(from, to), up = group.high.slice(from, to), down = group.low.slice(from, to);
    traces.push({ ...BASE, x: [...x, ...x.toReversed()], y: [...up, ...down.toReversed()], fill: "toself", fillcolor: faint(tone, 0.16), line: { width: 0 } });
  }
  return traces;
}

function stretches(values) {
  const ranges = [];
  let from = -1;
  for (let index = 0; index <= values.length; index += 1) {
    const there = index < values.length && values[index] !== null;
    if (there && from < 0) from = index;
    if (!there && from >= 0) {
      ranges.push([from, index]);
      from = -1;
    }
  }
  return ranges;
}

function lines(group, axis, index) {
  const tone = toneColour(group.tone), dash = DASHES[Math.floor(index / 8) % DASHES.length];
  const faintly = [...(group.lines ?? []), ...(group.raw ? [group.raw] : [])];
  return faintly.map((y) => ({ ...BASE, x: axis, y, line: { color: faint(tone, 0.3), width: 1, dash } }));
}

/* The whole mean for the pointer (`meta` marks the entries in the legend of a saved picture); solid where every run of the group has a value, dotted elsewhere. */
function mean(group, axis, index, { spans }) {
  const tone = toneColour(group.tone), full = (index) => group.counts[index] === group.n;
  const few = axis.length < 24 && !spans, dash = DASHES[Math.floor(index / 8) % DASHES.length];
  const whole = group.mean.map((value, index) => (full(index) ? value : null));
  // A dotted point, and its neighbours, so that it joins the solid line.
  const partly = group.mean.map((value, index) => ([index - 1, index, index + 1].some((near) => near in axis && !full(near)) ? value : null));
  const deviation = (index) => (group.low?.[index] != null ? ` [${number(group.low[index])}, ${number(group.high[index])}]` : "");
  return [
    { ...BASE, x: axis, y: partly, line: { color: tone, width: 1.4, dash: "dot" } },
    { ...BASE, x: axis, y: whole, meta: group.label, name: group.label, mode: few ? "lines+markers" : "lines", marker: { size: 5, color: tone }, line: { color: tone, width: 2, dash } },
    {
      ...BASE, x: axis, y: group.mean, line: { color: "rgba(0,0,0,0)", width: 1 }, hoverinfo: undefined, name: group.label,
      customdata: group.mean.map((value, index) => `${number(value)}${deviation(index)} · N ${group.counts[index]}`),
      hovertemplate: `${escapeHtml(group.label)} %{customdata}<extra></extra>`, hoverlabel: { font: { color: tone } },
    },
  ];
}

function layout(data, log) {
  const ink = colour("ink-3"), time = data.x === "time";
  const axis = { gridcolor: colour("border"), zeroline: false, linecolor: colour("border"), tickfont: { size: 10, color: ink }, automargin: true };
  return {
    margin: { l: 40, r: 10, t: 8, b: 38 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: ink },
    xaxis: { ...axis, showgrid: false, nticks: 8, title: { text: AXES[data.x], font: { size: 11 }, standoff: 8 }, hoverformat: time ? ".1f" : ",.0f", tickformat: time ? "" : "~s", spikecolor: colour("border-strong"), spikethickness: 1, spikedash: "solid" },
    yaxis: { ...axis, nticks: 6, type: log ? "log" : "linear" },
    hovermode: "x unified", hoverdistance: 30, dragmode: "zoom",
    hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("border"), font: { size: 11, color: colour("ink") } },
    uirevision: log ? "log" : "linear",
  };
}

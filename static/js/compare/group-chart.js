/* Curves of groups of runs: mean, band, and N at every point. Read through the API, drawn by Plotly while visible. */

import { colour, faint, forgetColours, toneColour } from "../charts/colours.js";
import { escapeHtml } from "../charts/marks.js";
import { yRange } from "../charts/range.js";
import { el } from "../dom.js";
import { figure } from "../format.js";
import { readJson } from "../requests.js";

const AXES = { step: "step", time: "minutes since the metric's first point", tokens: "tokens", episodes: "episodes", env_steps: "environment steps" };
const DASHES = ["solid", "dash", "dashdot", "dot"];
const TONES = 6;
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
  onTheme(() => charts.forEach((chart) => chart.draw()));
  return charts;
}

/* Calls `redraw` after a change of theme. */
export function onTheme(redraw) {
  const again = () => {
    forgetColours();
    redraw();
  };
  document.addEventListener("themechange", again);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
}

/* The numbers that the page has for a chart; null if they are read through the API. */
export function broughtBy(element) {
  const script = element.querySelector("script[type='application/json']");
  return script ? JSON.parse(script.textContent) : null;
}

export class GroupChart {
  #plot; #sets = null;

  constructor(element) {
    this.element = element;
    this.#plot = element.querySelector(".plot");
  }

  get plot() {
    return this.#plot;
  }

  /* Settings of its axes. */
  get axes() {
    return { logx: false, logy: "log" in this.element.dataset };
  }

  async load() {
    try {
      this.show(await this.read());
    } catch (error) {
      if (!this.#sets) this.say(`not loaded: ${error.message}`);
    }
  }

  /* Reads its numbers again, if it has been visible. */
  async again() {
    if (this.#sets) await this.load();
  }

  /* The answers of the API, one for each metric. */
  async read() {
    return [broughtBy(this.element) ?? (await readJson(this.element.dataset.source))];
  }

  /* The sets that are drawn. */
  shown(sets) {
    return sets;
  }

  show(sets) {
    this.#sets = sets;
    this.#legend();
    this.draw();
  }

  /* A text in place of the curves. */
  say(text) {
    if (this.#plot.data) Plotly.purge(this.#plot);
    this.#sets = null;
    this.#plot.replaceChildren(el("p", { class: "nothing" }, text));
  }

  draw() {
    if (!this.#sets) return;
    const all = this.shown(this.#sets), sets = all.filter((set) => set.axis.length);
    if (!sets.length) return this.say("no points on this axis");
    if (!this.#plot.data) this.#plot.replaceChildren();
    const looks = looksOf(all), below = [], means = [];
    for (const set of sets) {
      const axis = set.axis.map((value) => (set.x === "time" ? value / 60 : value));
      for (const group of set.groups) {
        below.push(...band(group, axis, looks.get(group)), ...lines(group, axis, looks.get(group)));
        means.push(...mean(group, axis, looks.get(group), set));
      }
      means.push(...overlaps(set.groups, axis, looks));
    }
    Plotly.react(this.#plot, [...below, ...means], layout(sets, this.axes), CONFIG);
  }

  #legend() {
    const looks = looksOf(this.#sets);
    this.element.querySelector("[data-legend]").replaceChildren(...this.#sets.flatMap(({ groups }) => groups).map((group) => (
      el("li", { title: members(group) },
        el("span", { class: "swatch", "data-tone": looks.get(group).tone, "data-dash": looks.get(group).dash }), looks.get(group).label, " ",
        group.n > 1 || group.runs[0].id !== group.group ? el("span", { class: "quiet" }, `N ${group.n}`) : null)
    )));
    const mark = (this.element.closest("section") ?? this.element).querySelector("[data-left-out]");
    const leftOut = Math.max(...this.#sets.map((set) => set.left_out)), without = Math.max(...this.#sets.map((set) => set.without.length));
    const omitted = Math.max(...this.#sets.map((set) => set.omitted)), drawn = Math.max(...this.#sets.map(({ groups }) => groups.length));
    const notes = [omitted && `${drawn} of ${drawn + omitted} groups`, leftOut && `${leftOut} points not finite`, without && `${without} without it`].filter(Boolean);
    if (!mark) return;
    mark.hidden = !notes.length;
    mark.textContent = notes.join(", ");
  }
}

/* The names of a group's runs; the server lists the first ones of many. */
function members({ runs, n }) {
  const names = runs.map((run) => `${run.name} ${run.id}`);
  return [...names, ...(n > runs.length ? [`and ${n - runs.length} more`] : [])].join("\n");
}

/* Colour, dash and label of every group. One metric: the group's colour, dashed where it is taken. Several metrics: a dash each, or of a single
   group a colour each. */
function looksOf(sets) {
  const looks = new Map(), alone = sets.every((set) => set.groups.length < 2), taken = new Map();
  sets.forEach((set, place) => set.groups.forEach((group) => {
    const before = taken.get(group.tone) ?? 0;
    taken.set(group.tone, before + 1);
    if (sets.length === 1) looks.set(group, { tone: group.tone, dash: DASHES[before % DASHES.length], label: group.label });
    else if (alone) looks.set(group, { tone: (place % TONES) + 1, dash: DASHES[Math.floor(place / TONES)], label: set.label ?? set.key });
    else looks.set(group, { tone: group.tone, dash: DASHES[place % DASHES.length], label: `${group.label} · ${set.label ?? set.key}` });
  }));
  return looks;
}

const BASE = { type: "scatter", mode: "lines", cliponaxis: false, showlegend: false, connectgaps: false, hoverinfo: "skip" };

/* Lower and upper bound as one filled outline for each interval with bounds. */
function band(group, axis, look) {
  if (!group.low) return [];
  const tone = toneColour(look.tone), traces = [];
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

function lines(group, axis, { tone, dash }) {
  const faintly = [...(group.lines ?? []), ...(group.raw ? [group.raw] : [])];
  return faintly.map((y) => ({ ...BASE, x: axis, y, line: { color: faint(toneColour(tone), 0.3), width: 1, dash } }));
}

/* The whole mean for the pointer (`meta` marks the entries in the legend of a saved picture); solid where every run of the group has a value, dotted elsewhere. */
function mean(group, axis, { tone: name, dash, label }, { key, spans }) {
  const tone = toneColour(name), full = (index) => group.counts[index] === group.n;
  const few = axis.length < 24 && !spans;
  const whole = group.mean.map((value, index) => (full(index) ? value : null));
  // A dotted point, and its neighbours, so that it joins the solid line.
  const partly = group.mean.map((value, index) => ([index - 1, index, index + 1].some((near) => near in axis && !full(near)) ? value : null));
  const deviation = (index) => (group.low?.[index] != null ? ` [${figure(group.low[index], key)}, ${figure(group.high[index], key)}]` : "");
  const count = (index) => (group.n > 1 ? ` · N ${group.counts[index]}` : "");
  return [
    { ...BASE, x: axis, y: partly, line: { color: tone, width: 1.4, dash: "dot" }, visible: group.n > 1 },
    // The points of a single run may have gaps on the common axis.
    { ...BASE, x: axis, y: whole, connectgaps: group.n === 1, meta: label, name: label, mode: few ? "lines+markers" : "lines", marker: { size: 5, color: tone }, line: { color: tone, width: 2, dash } },
    {
      ...BASE, x: axis, y: group.mean, line: { color: "rgba(0,0,0,0)", width: 1 }, hoverinfo: undefined, name: label,
      customdata: group.mean.map((value, index) => `${figure(value, key)}${deviation(index)}${count(index)}`),
      hovertemplate: `${escapeHtml(label)} %{customdata}<extra></extra>`, hoverlabel: { font: { color: tone } },
    },
  ];
}

/* Where the means of two groups are equal, as of a fork and its parent, the later one hides the earlier one: the earlier one again, dashed, on top. */
function overlaps(groups, axis, looks) {
  return groups.flatMap((group, place) => groups.slice(place + 1).flatMap((above) => {
    const y = group.mean.map((value, index) => (value !== null && value === above.mean[index] ? value : null));
    const long = y.some((value, index) => value !== null && (y[index + 1] ?? null) !== null), { tone } = looks.get(group);
    if (!long || tone === looks.get(above).tone) return [];
    return [{ ...BASE, x: axis, y, line: { color: toneColour(tone), width: 2, dash: "5px,5px" } }];
  }));
}

function layout(sets, { logx, logy }) {
  const ink = colour("ink-3"), [{ x: kind }] = sets, time = kind === "time";
  const axis = { gridcolor: colour("border"), zeroline: false, linecolor: colour("border"), tickfont: { size: 10, color: ink }, automargin: true };
  const values = sets.flatMap(({ groups }) => groups.flatMap((group) => ["mean", "low", "high", "raw"].flatMap((name) => group[name] ?? []).concat(...(group.lines ?? []))));
  const steps = sets.flatMap((set) => [set.axis[0], set.axis.at(-1)]), few = !time && !logx && kind in AXES && Math.max(...steps) - Math.min(...steps) < 8;
  const { range } = yRange(values.filter((value) => value !== null), { most: false, log: logy, fixed: null, whole: true });
  return {
    margin: { l: 40, r: 10, t: 8, b: 38 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: ink },
    xaxis: {
      ...axis, ...(few && { dtick: 1 /* no fractions of steps */ }), showgrid: false, nticks: 8, type: logx ? "log" : "linear", title: { text: escapeHtml(AXES[kind] ?? kind), font: { size: 11 }, standoff: 8 },
      hoverformat: time ? ".1f" : kind in AXES ? ",.0f" : ".4~g", tickformat: time || logx ? "" : "~s", spikecolor: colour("border-strong"), spikethickness: 1, spikedash: "solid",
    },
    yaxis: { ...axis, nticks: 6, type: logy ? "log" : "linear", ...(range && { range }) },
    hovermode: "x unified", hoverdistance: 30, dragmode: "zoom",
    hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("border"), font: { size: 11, color: colour("ink") } },
    uirevision: `${kind} ${logx} ${logy}`,
  };
}

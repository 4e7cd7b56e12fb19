/* Charts: one panel each, drawn by Plotly while it can be seen, as often as the browser can afford. */

import { atMost, el } from "./dom.js";
import { number } from "./format.js";
import { smooth, split } from "./series.js";
import { colour, faint, forgetColours, toneColour } from "./charts/colours.js";
import { escapeHtml, markedLayout } from "./charts/marks.js";

const FEW = 24;
const SHORTEST = 30, LONGEST = 1000;
const SHARE = 1 / 3;
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset", showTips: false };

/* What the last drawing of each chart in sight took, in milliseconds: together they get a share of the browser's time. */
const costs = new Map();

function interval() {
  const whole = [...costs.values()].reduce((sum, cost) => sum + cost, 0);
  return Math.min(LONGEST, Math.max(SHORTEST, whole / SHARE));
}

export class Chart {
  #element; #spec; #store; #options; #visible = false; #drawn = false; #draw; #plot;

  constructor(element, spec, store, options) {
    this.#element = element;
    this.#spec = spec;
    this.#store = store;
    this.#options = options;
    this.#plot = element.querySelector(".plot");
    this.#draw = atMost(interval, () => this.#measured());
  }

  get keys() {
    return this.#spec.lines.map((line) => line.key);
  }

  see(visible) {
    this.#visible = visible;
    if (visible) this.#draw();
    else costs.delete(this);
    if (!visible && this.#drawn) {
      Plotly.purge(this.#plot);
      this.#drawn = false;
    }
  }

  changed() {
    this.#legend();
    if (this.#visible) this.#draw();
  }

  fail(text) {
    if (!this.#drawn) this.#plot.replaceChildren(el("p", { class: "nothing" }, text));
  }

  #legend() {
    let bad = 0;
    for (const item of this.#element.querySelectorAll("[data-last]")) {
      const values = this.#store.get(item.dataset.last)?.values ?? [];
      item.textContent = values.length ? number(values.at(-1)) : "";
      bad += values.filter((value) => !Number.isFinite(value)).length;
    }
    const mark = this.#element.querySelector("[data-not-finite]");
    mark.hidden = !bad;
    mark.textContent = `${bad} not finite`;
  }

  #measured() {
    const began = performance.now();
    this.#render();
    if (this.#visible) costs.set(this, performance.now() - began);
  }

  #render() {
    if (!this.#visible) return;
    const traces = this.#spec.lines.flatMap((line) => this.#traces(line));
    if (!traces.some((trace) => trace.x.length)) {
      if (this.#drawn) return;
      this.#plot.replaceChildren(el("p", { class: "nothing" }, this.#options.alive() ? "no points yet" : "no points"));
      return;
    }
    if (!this.#drawn) this.#plot.replaceChildren();
    Plotly.react(this.#plot, traces, this.#layout(), CONFIG);
    if (!this.#drawn) this.#listen();
    this.#drawn = true;
  }

  #listen() {
    this.#plot.on("plotly_click", (event) => this.#options.onPick?.(event.points[0].x));
    this.#plot.on("plotly_clickannotation", ({ annotation }) => annotation.name && location.assign(annotation.name));
  }

  #traces(line) {
    const columns = this.#store.get(line.key);
    if (!columns?.steps.length) return [];
    const tone = toneColour(line.tone), weight = this.#options.smoothing();
    const { current, superseded } = split(columns);
    const base = { type: "scatter", mode: "lines", cliponaxis: false, showlegend: false, connectgaps: false, hoverinfo: "skip" };
    const traces = [];
    if (superseded.x.length) {
      traces.push({ ...base, ...superseded, line: { color: faint(tone, 0.4), width: 1, dash: "dot" } });
    }
    const many = current.x.length >= FEW && weight > 0;
    if (many) traces.push({ ...base, ...current, line: { color: faint(tone, 0.28), width: 1 } });
    traces.push({
      ...base, x: current.x, y: many ? smooth(current.y, weight) : current.y, customdata: current.y.map(number),
      mode: current.x.length < FEW ? "lines+markers" : "lines", marker: { size: 4, color: tone },
      line: { color: tone, width: 1.8 }, name: line.label, hoverinfo: undefined,
      hovertemplate: `${escapeHtml(line.label)} %{customdata}<extra></extra>`,
    });
    return traces;
  }

  #layout() {
    const ink = colour("ink-3");
    const axis = { gridcolor: colour("border"), zeroline: false, linecolor: colour("border"), tickfont: { size: 10, color: ink }, fixedrange: !this.#options.zoom, automargin: true };
    const y = { ...axis, nticks: 5 };
    if (this.#spec.range && !this.#options.log()) Object.assign(y, { range: [this.#spec.range[0] - 0.02, this.#spec.range[1] + 0.02] });
    if (this.#options.log()) y.type = "log";
    return {
      margin: { l: 34, r: 8, t: 8, b: 22 }, paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
      font: { family: getComputedStyle(document.body).fontFamily, size: 11, color: ink },
      xaxis: { ...axis, showgrid: false, nticks: 6, tickformat: ",d", rangemode: "tozero", autorangeoptions: { include: 10 }, spikecolor: colour("border-strong"), spikethickness: 1, spikedash: "solid" }, yaxis: y,
      hovermode: "x unified", hoverdistance: 30, dragmode: this.#options.zoom ? "zoom" : false,
      hoverlabel: { bgcolor: colour("panel"), bordercolor: colour("border"), font: { size: 11, color: colour("ink") } },
      ...markedLayout(this.#options.marks(), (mark) => mark.step),
      uirevision: this.#options.log() ? "log" : "linear",
    };
  }
}

/* All charts of a page: mounted when they come into sight, loaded with the first look. */
export class ChartBoard {
  #charts = new Map(); #store; #watcher; #options;

  constructor(store, options) {
    this.#store = store;
    this.#options = { smoothing: readSmoothing, log: () => logScale, ...options };
    this.#watcher = new IntersectionObserver((entries) => this.#seen(entries), { rootMargin: "200px" });
    store.addEventListener("change", (event) => this.#changed(event.detail));
    for (const type of ["themechange", "markschange"]) document.addEventListener(type, () => this.redraw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
    this.#controls();
  }

  add(element, spec) {
    const chart = new Chart(element, spec, this.#store, this.#options);
    this.#charts.set(element, chart);
    this.#watcher.observe(element);
    chart.changed();
  }

  redraw() {
    forgetColours();
    for (const chart of this.#charts.values()) chart.changed();
  }

  #seen(entries) {
    const wanted = [];
    for (const entry of entries) {
      const chart = this.#charts.get(entry.target);
      chart.see(entry.isIntersecting);
      if (entry.isIntersecting) wanted.push(chart);
    }
    const keys = wanted.flatMap((chart) => chart.keys);
    this.#store.load(keys).catch((error) => wanted.forEach((chart) => chart.fail(`not read: ${error.message}`)));
  }

  #changed(keys) {
    for (const chart of this.#charts.values()) if (chart.keys.some((key) => keys.has(key))) chart.changed();
  }

  #controls() {
    const slider = document.querySelector("[data-smoothing]");
    if (slider) {
      const show = () => (slider.nextElementSibling.textContent = Number(slider.value).toFixed(2));
      slider.value = readSmoothing();
      show();
      slider.addEventListener("input", () => {
        localStorage.setItem("smoothing", slider.value);
        show();
        this.redraw();
      });
    }
    document.querySelector("[data-log-scale]")?.addEventListener("change", (event) => {
      logScale = event.target.checked;
      this.redraw();
    });
  }
}

let logScale = false;

function readSmoothing() {
  const value = Number(localStorage.getItem("smoothing") ?? 0.7);
  return value >= 0 && value < 1 ? value : 0.7;
}

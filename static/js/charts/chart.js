/* One chart: a panel that Plotly draws while it is visible, at a rate that the browser can sustain. */

import { atMost, el } from "../dom.js";
import { axisOf, markPlace } from "./axis.js";
import { crosshairAt, crosshairGone, lastValues, valuesAt } from "./crosshair.js";
import { layoutOf, windowOf } from "./layout.js";
import { markedLayout } from "./marks.js";
import { interval, took } from "./pace.js";
import { plotly } from "./plotly.js";
import { ends, yRange } from "./range.js";
import { saveMenu } from "./saving.js";
import { leadTraces, showLeads } from "./leads.js";
import { tracesOf } from "./traces.js";

const CONFIG = { displayModeBar: false, responsive: true, doubleClick: false, showTips: false };

export class Chart {
  #element; #spec; #store; #options; #visible = false; #drawn = false; #draw; #plot;

  /* options: view, leads (of a fork: see leads.js), marks(), alive(), onPick(step, run), onPoint(x or null), csv(keys), name. */
  constructor(element, spec, store, options) {
    this.#element = element;
    this.#spec = spec;
    this.#store = store;
    this.#options = options;
    this.#plot = element.querySelector(".plot");
    this.#draw = atMost(interval, () => this.#render().catch((error) => this.fail(error.message)));
    element.querySelector("[data-save]")?.addEventListener("click", ({ currentTarget }) => this.#drawn && saveMenu(currentTarget, this.#file()));
  }

  get keys() {
    return this.#spec.lines.map((line) => line.key);
  }

  get visible() {
    return this.#visible;
  }

  see(visible) {
    this.#visible = visible;
    if (visible) return this.#draw();
    took(this, null);
    if (this.#drawn) {
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

  /* The crosshair at x (null: nowhere); the step there. */
  point(x) {
    if (!this.#drawn) return null;
    if (x === null) {
      crosshairGone(this.#plot);
      lastValues(this.#element, this.#store);
      return null;
    }
    crosshairAt(this.#plot, x);
    const { step, values } = valuesAt(this.#plot, x);
    for (const item of this.#element.querySelectorAll("[data-last]")) if (values.has(item.dataset.last)) item.textContent = values.get(item.dataset.last);
    return step;
  }

  #legend() {
    lastValues(this.#element, this.#store);
    const bad = this.keys.flatMap((key) => this.#store.get(key)?.values ?? []).filter((value) => !Number.isFinite(value));
    const undefinedOnes = bad.filter(Number.isNaN).length, infinite = bad.length - undefinedOnes;
    this.#badge("[data-not-finite]", bad.length, [undefinedOnes && `${undefinedOnes} NaN`, infinite && `${infinite} ∞`].filter(Boolean).join(", "));
  }

  #badge(which, shown, text) {
    const badge = this.#element.querySelector(which);
    badge.hidden = !shown;
    badge.textContent = text;
  }

  async #render() {
    const library = await plotly();
    if (!this.#visible) return;
    const began = performance.now();
    const { view } = this.#options, axis = axisOf(view.x, this.#store.get(view.axisKey)), window = view.window;
    const columns = this.keys.map((key) => this.#columns(key, axis, window));
    const leads = leadTraces(this.#options.leads, this.#spec.lines, columns, view);
    const traces = this.#spec.lines.flatMap((line, index) => [...leads.of(line), ...(columns[index]?.steps.length ? tracesOf(line, columns[index], axis, view) : [])]);
    showLeads(this.#element, leads);
    if (!traces.some(({ y }) => y.some(Number.isFinite))) {
      if (!this.#drawn) this.fail(traces.length ? "no finite value" : this.#options.alive() ? "no points yet" : "no points");
      return;
    }
    const { range, outside } = this.#range(traces, window);
    const places = markedLayout(this.#options.marks(), (mark) => markPlace(mark, view.x, axis, columns.find(Boolean)), view.logx, ends(traces.flatMap(({ x }) => x.filter(Number.isFinite))));
    this.#badge("[data-outside]", outside, `${outside} outside`);
    const drawing = this.#put(library, traces, { ...layoutOf(view, window, range), ...places });
    took(this, performance.now() - began);
    await drawing;
  }

  /* Prepares the panel once: another drawing may begin before this one has ended. */
  async #put(library, traces, layout) {
    const first = !this.#drawn;
    if (first) this.#plot.replaceChildren();
    const drawing = library.react(this.#plot, traces, layout, CONFIG);
    this.#drawn = true;
    if (first) this.#listen();
    await drawing;
    if (first) performance.mark("chart");
  }

  /* A series; for a long one, the visible part in more detail once it is loaded. While points still arrive, the whole series. */
  #columns(key, axis, window) {
    const whole = this.#store.get(key);
    if (!whole?.buckets || !window) return whole;
    const { steps, times } = whole;
    const inside = steps.map((step, index) => axis.x(step, times[index])).map((x) => x >= window[0] && x <= window[1]);
    const first = inside.indexOf(true), last = inside.lastIndexOf(true);
    if (first < 0 || (this.#options.alive() && last === steps.length - 1)) return whole;
    return this.#store.detail(key, steps[Math.max(0, first - 1)], steps[Math.min(steps.length - 1, last + 1)]) ?? whole;
  }

  #range(traces, window) {
    const { view } = this.#options;
    const values = traces.flatMap(({ x, y }) => (window ? y.filter((_, index) => x[index] >= window[0] && x[index] <= window[1]) : y));
    return yRange(values, { most: view.range === "most", log: view.logy, fixed: this.#spec.range, whole: !window });
  }

  #listen() {
    const { view, onPick, onPoint } = this.#options;
    this.#plot.on("plotly_click", ({ points }) => onPick(...(points.find((point) => point.customdata)?.customdata ?? []).filter((_, index) => index === 1 || index === 3)));
    this.#plot.on("plotly_clickannotation", ({ annotation }) => annotation.name && location.assign(annotation.name));
    this.#plot.on("plotly_hover", ({ xvals }) => onPoint(xvals[0]));
    this.#plot.on("plotly_unhover", () => onPoint(null));
    this.#plot.on("plotly_doubleclick", () => view.zoom(null));
    this.#plot.on("plotly_relayout", (change) => "xaxis.range[0]" in change && view.zoom(windowOf(this.#plot, view)));
  }

  #file() {
    const { title, unit, id } = this.#spec;
    return { plot: this.#plot, title, unit, name: `${this.#options.name}-${id}`, csv: this.#options.csv(this.keys) };
  }
}

/* All charts of a page: mounted and loaded when they become visible, with a common crosshair. */

import { announce } from "./announce.js";
import { Chart } from "./charts/chart.js";
import { forgetColours } from "./charts/colours.js";

export class ChartBoard {
  #charts = new Map(); #store; #watcher; #options; #pointed = null; #due = false;

  /* options: those of Chart except onPoint. */
  constructor(store, options) {
    this.#store = store;
    this.#options = { ...options, onPoint: (x) => this.#point(x) };
    this.#watcher = new IntersectionObserver((entries) => this.#seen(entries), { rootMargin: "200px" });
    for (const source of [store, ...options.leads.map((lead) => lead.store)]) source.addEventListener("change", (event) => this.#changed(event.detail));
    options.view.addEventListener("change", () => this.#viewed());
    for (const type of ["themechange", "markschange"]) document.addEventListener(type, () => this.redraw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw());
  }

  /* The step at the pointer, or null. */
  step = null;

  add(element, spec) {
    const chart = new Chart(element, spec, this.#store, this.#options);
    this.#charts.set(element, chart);
    this.#watcher.observe(element);
    chart.changed();
  }

  remove(element) {
    this.#watcher.unobserve(element);
    this.#charts.get(element)?.see(false);
    this.#charts.delete(element);
  }

  /* Metrics of the visible charts. */
  get keys() {
    return [...this.#charts.values()].filter((chart) => chart.visible).flatMap((chart) => chart.keys);
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
    this.#load(wanted);
  }

  #load(charts) {
    const { axisKey } = this.#options.view, keys = charts.flatMap((chart) => chart.keys);
    const wanted = axisKey ? [...new Set([...keys, axisKey])] : keys;
    this.#store.load(wanted).catch((error) => {
      announce("charts", `Charts are not loaded: ${error.message}`, true);
      for (const chart of charts) chart.fail(`not loaded: ${error.message}`);
    });
    if (this.#options.view.lead === "shown") for (const { store } of this.#options.leads) store.load(wanted).catch(() => {});
  }

  #viewed() {
    this.#load([...this.#charts.values()].filter((chart) => chart.visible));
    this.redraw();
  }

  #changed(keys) {
    const { axisKey } = this.#options.view, moved = axisKey !== null && keys.has(axisKey);
    for (const chart of this.#charts.values()) if (moved || chart.keys.some((key) => keys.has(key))) chart.changed();
  }

  #point(x) {
    this.#pointed = x;
    if (this.#due) return;
    this.#due = true;
    requestAnimationFrame(() => {
      this.#due = false;
      this.step = null;
      for (const chart of this.#charts.values()) this.step = chart.point(this.#pointed) ?? this.step;
    });
  }
}

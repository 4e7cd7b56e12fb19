/* A board of panels: built, moved, resized, pinned and removed with a pointer or the keyboard. They are stored in the address. */

import { saveMenu } from "../charts/saving.js";
import { onTheme } from "../compare/group-chart.js";
import { atMost } from "../dom.js";
import { panelsRead, panelsWrite, titleOf } from "./definitions.js";
import { PanelDialog } from "./dialog.js";
import { PanelChart } from "./panel-chart.js";

const HEIGHTS = ["s", "m", "l"];
const AGAIN = 4000;

export class PanelBoard extends EventTarget {
  #root; #charts = []; #watcher; #dialog; #dragged = null;
  #again = atMost(AGAIN, () => this.redraw());

  /* data: see webapp/metrics/panels.py. The owner sets runs, by and band, and then calls redraw(). kept: the
     key under which this browser remembers the panels. */
  constructor(data, view, kept) {
    super();
    Object.assign(this, { data, view, kept, runs: data.shown, by: "run", band: "sd" });
    this.#root = document.querySelector("[data-board]");
    this.#watcher = new IntersectionObserver((entries) => entries.forEach(({ target, isIntersecting }) => this.#of(target)?.see(isIntersecting)), { rootMargin: "200px" });
    this.#dialog = new PanelDialog(document.getElementById("panel-dialog"), data);
    for (const button of document.querySelectorAll("[data-panel-add]")) button.addEventListener("click", () => this.#dialog.open(null, (panels) => this.#add(panels)));
    this.#root.addEventListener("click", (event) => this.#clicked(event));
    view.addEventListener("change", () => this.redraw());
    onTheme(() => this.#charts.forEach((chart) => chart.draw()));
    this.#dragging();
    for (const panel of panelsRead(data.default, kept)) this.#make(panel);
    this.#store();
  }

  get panels() {
    return this.#charts.map(({ panel }) => panel);
  }

  /* Reads the curves of all panels again, when they are visible. */
  redraw() {
    for (const chart of this.#charts) chart.changed();
  }

  /* New points of a shown run have arrived. */
  arrived() {
    this.#again();
  }

  failed(error) {
    this.dispatchEvent(new CustomEvent("failed", { detail: error }));
  }

  #of(element) {
    return this.#charts.find((chart) => chart.element === element);
  }

  #make(panel) {
    const element = document.getElementById("panel-template").content.firstElementChild.cloneNode(true);
    const chart = new PanelChart(element, panel, this);
    this.#charts.push(chart);
    this.#label(chart);
    this.#watcher.observe(element);
    return chart;
  }

  #label({ element, panel }) {
    const title = titleOf(panel);
    element.setAttribute("aria-label", title);
    Object.assign(element.dataset, { width: panel.width, height: panel.height });
    Object.assign(element.querySelector("h3"), { textContent: title, title });
    element.querySelector("summary").setAttribute("aria-label", `Change ${title}`);
    element.querySelector("[data-save]").setAttribute("aria-label", `Save ${title}`);
    element.querySelector("[data-pinned]").hidden = !panel.pinned;
    element.querySelector("[data-panel-act=pin]").textContent = panel.pinned ? "Unpin" : "Pin";
  }

  /* Pinned panels come first; otherwise in their order. */
  #arrange() {
    this.#charts = [...this.#charts.filter(({ panel }) => panel.pinned), ...this.#charts.filter(({ panel }) => !panel.pinned)];
    const focused = document.activeElement;
    this.#charts.forEach(({ element }, index) => this.#root.children[index] !== element && this.#root.insertBefore(element, this.#root.children[index] ?? null));
    if (this.#root.contains(focused)) focused.focus();
    const empty = document.querySelector("[data-no-panels]");
    empty.hidden = this.#charts.length > 0 || "quiet" in empty.dataset;
  }

  #store() {
    this.#arrange();
    panelsWrite(this.panels, this.data.default, this.kept);
    this.dispatchEvent(new Event("change"));
  }

  #add(panels) {
    const made = panels.slice(0, this.data.mostPanels - this.#charts.length).map((panel) => this.#make(panel));
    this.#store();
    made.at(-1)?.element.scrollIntoView({ block: "nearest" });
    made.at(-1)?.element.querySelector("summary").focus();
  }

  #clicked({ target }) {
    const button = target.closest("button"), chart = this.#of(target.closest(".board-panel"));
    if (!button || !chart) return;
    if ("save" in button.dataset && chart.plot.data) return this.#save(button, chart);
    const act = button.dataset.panelAct;
    if (act) this.#act(chart, act);
  }

  #act(chart, act) {
    const { panel } = chart, index = this.#charts.indexOf(chart);
    if (act === "edit") return this.#dialog.open(panel, ([changed, ...more]) => this.#edited(chart, changed, more));
    if (act === "remove") return this.#remove(chart, index);
    if (act === "earlier") this.#move(index, index - 1);
    if (act === "later") this.#move(index, index + 1);
    if (act === "wider") panel.width = Math.min(3, panel.width + 1);
    if (act === "narrower") panel.width = Math.max(1, panel.width - 1);
    if (act === "taller") panel.height = HEIGHTS[Math.min(2, HEIGHTS.indexOf(panel.height) + 1)];
    if (act === "lower") panel.height = HEIGHTS[Math.max(0, HEIGHTS.indexOf(panel.height) - 1)];
    if (act === "pin") panel.pinned = !panel.pinned;
    this.#label(chart);
    this.#store();
    if (chart.plot.data) Plotly.Plots.resize(chart.plot);
  }

  #move(from, to) {
    if (to < 0 || to >= this.#charts.length) return;
    const [chart] = this.#charts.splice(from, 1);
    this.#charts.splice(to, 0, chart);
  }

  #edited(chart, changed, more) {
    chart.panel = changed;
    this.#label(chart);
    more.forEach((panel) => this.#charts.length < this.data.mostPanels && this.#make(panel));
    this.#store();
    chart.changed();
    chart.element.querySelector("summary").focus();
  }

  #remove(chart, index) {
    this.#charts.splice(index, 1);
    chart.element.remove();
    this.#store();
    (this.#charts[Math.min(index, this.#charts.length - 1)]?.element.querySelector("summary") ?? document.querySelector("[data-panel-add]")).focus();
  }

  #save(button, chart) {
    const title = titleOf(chart.panel), name = title.replaceAll(/[^\w.-]+/g, "-").slice(0, 80);
    saveMenu(button, { plot: chart.plot, title, unit: "", name, csv: `${this.data.csv}?${chart.query(chart.metrics[0])}` });
  }

  /* A panel that is dragged by its heading takes the place of the one that it is dropped on. */
  #dragging() {
    const over = (event) => this.#dragged && event.target.closest?.(".board-panel");
    const mark = (panel) => this.#charts.forEach(({ element }) => element.classList.toggle("over", element === panel && panel !== this.#dragged));
    this.#root.addEventListener("dragstart", (event) => (this.#dragged = event.target.closest(".board-panel")));
    this.#root.addEventListener("dragend", () => mark((this.#dragged = null)));
    this.#root.addEventListener("dragover", (event) => {
      const panel = over(event);
      if (panel) event.preventDefault();
      mark(panel);
    });
    this.#root.addEventListener("drop", (event) => {
      const panel = over(event);
      if (!panel) return;
      event.preventDefault();
      this.#move(this.#charts.indexOf(this.#of(this.#dragged)), this.#charts.indexOf(this.#of(panel)));
      this.#store();
    });
  }
}

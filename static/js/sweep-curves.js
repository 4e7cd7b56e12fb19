/* Curves of a sweep: mean and band of each value, and the lines of its runs while its name in the legend has the pointer or the focus. */

import { GroupChart, onTheme } from "./compare/group-chart.js";
import { announce } from "./announce.js";
import { readJson } from "./requests.js";

const AGAIN = 15_000;

class SweepChart extends GroupChart {
  #lines = new Map(); #pointed = null;

  constructor(element) {
    super(element);
    const legend = element.querySelector("[data-legend]");
    for (const type of ["pointerover", "focusin"]) legend.addEventListener(type, ({ target }) => this.#point(target.closest("li")));
    for (const type of ["pointerleave", "focusout"]) legend.addEventListener(type, () => this.#point(null));
  }

  show(sets) {
    super.show(sets);
    const names = [...this.element.querySelectorAll("[data-legend] li")];
    sets[0].groups.forEach(({ group }, index) => Object.assign(names[index].dataset, { group }));
    for (const name of names) name.tabIndex = 0;
  }

  /* With the lines of the runs of the value that is pointed at. */
  shown(sets) {
    const lines = this.#lines.get(this.#pointed);
    if (!lines) return sets;
    return sets.map((set) => ({ ...set, groups: set.groups.map((group) => (group.group === this.#pointed ? { ...group, lines } : group)) }));
  }

  async again() {
    if (this.element.contains(document.activeElement)) return;
    this.#lines.clear();
    await super.again();
  }

  async #point(name) {
    this.#pointed = name?.dataset.group ?? null;
    this.draw();
    if (this.#pointed === null || this.#lines.size) return;
    try {
      const { groups } = await readJson(`${this.element.dataset.source}&band=runs`);
      for (const { group, lines } of groups) this.#lines.set(group, lines);
      this.draw();
    } catch (error) {
      announce("sweep-lines", `The lines of the runs are not loaded: ${error.message}`, true);
    }
  }
}

let charts = [];
function begin() {
  charts = [...document.querySelectorAll("#sweep-curves [data-group-chart]")].map((element) => new SweepChart(element));
  for (const chart of charts) chart.load();
}
begin();
onTheme(() => charts.forEach((chart) => chart.draw()));

/* The tables that are read again bring the charts of the first numbers. */
document.addEventListener("htmx:afterSettle", () => {
  const first = document.querySelector("template[data-curves]");
  if (charts.length || !first?.content.children.length) return;
  document.getElementById("sweep-curves").replaceChildren(first.content);
  begin();
});

/* While runs are active, and once after the last one has ended. */
const timer = setInterval(() => {
  if (document.visibilityState !== "visible") return;
  if (!document.querySelector("[data-active]")) clearInterval(timer);
  for (const chart of charts) chart.again();
}, AGAIN);

/* The curves of one panel: a request for each of its metrics, while it is visible. */

import { plotly } from "../charts/plotly.js";
import { GroupChart } from "../compare/group-chart.js";
import { readJson } from "../requests.js";
import { metricsOf } from "./definitions.js";

export class PanelChart extends GroupChart {
  metrics = [];
  #board; #stale = true; #visible = false; #asked = 0;

  constructor(element, panel, board) {
    super(element);
    this.panel = panel;
    this.#board = board;
  }

  get axes() {
    const { view } = this.#board;
    return { logx: this.panel.logx || view.logx, logy: this.panel.logy || view.logy };
  }

  /* The query of one metric's curves. */
  query(key) {
    const { view, runs, by, band } = this.#board, { panel } = this;
    return new URLSearchParams({ runs: runs.join(","), key, by, band, x: panel.x || view.x, smooth: panel.smooth ?? view.smooth });
  }

  see(visible) {
    this.#visible = visible;
    if (visible && this.#stale) this.load();
  }

  /* Its numbers are outdated. */
  changed() {
    this.#stale = true;
    if (this.#visible) this.load();
  }

  async load() {
    const asked = ++this.#asked;
    this.#stale = false;
    if (!this.#board.runs.length) return this.say("no run is shown: press the circle in its row");
    let metrics;
    try {
      metrics = await metricsOf(this.panel, this.#board.data);
    } catch (error) {
      return asked === this.#asked && this.say(error.message);
    }
    if (asked !== this.#asked) return;
    this.metrics = metrics;
    if (!metrics.length) return this.say("no metric matches");
    try {
      const [sets] = await Promise.all([Promise.all(metrics.map((key) => readJson(`${this.#board.data.source}?${this.query(key)}`))), plotly()]);
      if (asked === this.#asked) this.#put(sets);
    } catch (error) {
      if (asked !== this.#asked) return;
      this.say(error.message);
      this.#board.failed(error);
    }
  }

  #put(sets) {
    const some = sets.filter((set) => set.axis.length);
    if (some.length) this.show(some);
    else this.say(`none of the shown runs has ${sets.length > 1 ? "these metrics" : sets[0].key}`);
  }
}

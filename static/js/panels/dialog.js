/* The dialog that builds a panel. Errors are shown at their fields. */

import { write } from "../announce.js";
import { atMost, el } from "../dom.js";
import { readJson } from "../requests.js";
import { matched, unreported, whole } from "./definitions.js";

const AXES = ["", "step", "time", "tokens", "episodes", "env_steps"];

export class PanelDialog {
  #dialog; #form; #data; #done = null; #before = null;

  constructor(dialog, data) {
    this.#dialog = dialog;
    this.#form = dialog.querySelector("form");
    this.#data = data;
    this.#form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.#submit();
    });
    this.#form.elements.pattern.addEventListener("input", atMost(100, () => this.#count()));
    if (data.search) this.#form.elements.metrics.addEventListener("input", atMost(300, () => this.#offer().catch(() => {})));
    dialog.querySelector("[data-panel-cancel]").addEventListener("click", () => dialog.close());
  }

  /* Offers metrics of a run with many: those with the words after the last comma. */
  async #offer() {
    const words = this.#form.elements.metrics.value.split(",").at(-1).trim();
    const { keys } = await readJson(`${this.#data.search}?${new URLSearchParams({ search: words, limit: 50 })}`);
    document.getElementById("panel-keys").replaceChildren(...keys.map(({ key }) => el("option", { value: key })));
  }

  /* panel: null for a new one. done: called with the panels that the form describes. */
  open(panel, done) {
    this.#done = done;
    this.#before = panel;
    const { elements } = this.#form, shown = whole(panel ?? {});
    this.#form.reset();
    elements.metrics.value = shown.metrics.join(", ");
    for (const name of ["pattern", "title", "x", "width", "height"]) elements[name].value = shown[name];
    elements.smooth.value = shown.smooth ?? "";
    for (const name of ["logx", "logy", "pinned"]) elements[name].checked = shown[name];
    this.#complain({});
    this.#count();
    this.#dialog.showModal();
    elements.metrics.focus();
  }

  async #count() {
    const pattern = this.#form.elements.pattern.value;
    let text = "";
    try {
      const count = (await matched(pattern, this.#data)).length;
      if (pattern !== this.#form.elements.pattern.value) return;
      if (pattern) text = `${count} match${count > this.#data.mostMetrics ? `; one chart has at most ${this.#data.mostMetrics}` : ""}`;
    } catch { /* It is reported on submission. */ }
    write(this.#dialog.querySelector("[data-matches]"), text);
    this.#dialog.querySelector("[data-each]").hidden = !pattern;
  }

  async #submit() {
    const { elements } = this.#form, metrics = elements.metrics.value.split(",").map((text) => text.trim()).filter(Boolean);
    const panel = whole({
      ...this.#before, metrics, pattern: elements.pattern.value.trim(), title: elements.title.value.trim(), x: elements.x.value.trim(),
      smooth: elements.smooth.value === "" ? null : Number(elements.smooth.value), width: Number(elements.width.value), height: elements.height.value,
      ...Object.fromEntries(["logx", "logy", "pinned"].map((name) => [name, elements[name].checked])),
    });
    const errors = await this.#errors(panel);
    this.#complain(errors);
    if (Object.keys(errors).length) return;
    this.#dialog.close();
    this.#done(elements.each.value ? await this.#split(panel) : [panel]);
  }

  /* A panel for each metric. */
  async #split(panel) {
    const names = [...new Set([...panel.metrics, ...(await matched(panel.pattern, this.#data))])];
    return names.map((name) => ({ ...panel, metrics: [name], pattern: "", title: "" }));
  }

  /* The message for each field that is wrong. */
  async #errors({ metrics, pattern, x }) {
    const errors = {};
    try {
      if (!metrics.length && !pattern) errors.metrics = "Name a metric, or a regular expression below.";
      else if (pattern && !(await matched(pattern, this.#data)).length && !metrics.length) errors.pattern = "No metric of these runs matches.";
    } catch (error) {
      errors.pattern = `${error.message}.`;
    }
    if (metrics.length > this.#data.mostMetrics) errors.metrics = `At most ${this.#data.mostMetrics} metrics in one chart.`;
    for (const text of metrics) errors.metrics ??= await this.#wrong(text);
    if (!AXES.includes(x)) errors.x = await this.#wrong(x);
    return Object.fromEntries(Object.entries(errors).filter(([, message]) => message));
  }

  /* What is wrong with an expression; undefined if nothing is. */
  async #wrong(text) {
    try {
      const { metrics, error } = await readJson(`${this.#data.check}?${new URLSearchParams({ text })}`);
      const unknown = await unreported(metrics, this.#data);
      if (error) return error;
      return unknown.length ? `None of these runs reports ${unknown.join(", ")}.` : undefined;
    } catch (error) {
      return `Not checked: ${error.message}`;
    }
  }

  #complain(errors) {
    for (const line of this.#dialog.querySelectorAll("[data-error]")) {
      const field = line.dataset.error, message = errors[field] ?? "";
      line.hidden = !message;
      line.textContent = message;
      this.#form.elements[field].setAttribute("aria-invalid", String(Boolean(message)));
    }
    const first = Object.keys(errors)[0];
    if (first) this.#form.elements[first].focus();
  }
}

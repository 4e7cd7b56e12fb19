/* View settings of charts: the address's ?x= smooth= under= range= lead= logx= logy= from= to=, and the controls that set it. */

import { addressGet, addressSet, keepView } from "../address.js";
import { zoneShift } from "../times.js";

const DEFAULTS = { x: "step", smooth: "0.7", under: "raw", range: "all", lead: "shown", logx: "", logy: "", from: "", to: "" };
const CHOICES = { under: ["raw", "band", "none"], range: ["all", "most"], lead: ["shown", "none"], logx: ["", "1"], logy: ["", "1"] };
const KEPT = "smoothing";

export class View extends EventTarget {
  #axes;

  /* axes: {tokens: "progress/tokens", …}, the run's axes other than step and time. */
  constructor(axes) {
    super();
    this.#axes = axes;
    const stored = localStorage.getItem(KEPT);
    if (stored !== null && !addressGet("smooth", "")) this.set({ smooth: stored });
    for (const control of document.querySelectorAll("[data-view]")) this.#bind(control);
    document.querySelector("[data-view-reset]")?.addEventListener("click", () => this.set({ ...DEFAULTS }));
    document.querySelector("[data-zoom-out]")?.addEventListener("click", () => this.zoom(null));
    this.#show();
    keepView();
  }

  /* step, time, or an axis of the run. */
  get x() {
    const named = addressGet("x", DEFAULTS.x);
    return named === "time" || named in this.#axes ? named : "step";
  }

  /* The metric of the run's progress at each step; null for step and time. */
  get axisKey() {
    return this.#axes[this.x] ?? null;
  }

  get smooth() {
    const value = Number(addressGet("smooth", DEFAULTS.smooth));
    return value >= 0 && value < 1 ? value : Number(DEFAULTS.smooth);
  }

  get under() {
    return this.#choice("under");
  }

  get range() {
    return this.#choice("range");
  }

  /* Whether the curves of a fork begin with those of its parent. */
  get lead() {
    return this.#choice("lead");
  }

  get logx() {
    return this.#choice("logx") === "1" && this.x !== "time";
  }

  get logy() {
    return this.#choice("logy") === "1";
  }

  /* [from, to] in units of the axis, or null if everything is visible. The address has milliseconds of UTC for time. */
  get window() {
    const [from, to] = ["from", "to"].map((name) => addressGet(name, ""));
    if (from === "" || to === "" || !(Number(from) < Number(to))) return null;
    return [Number(from), Number(to)].map((value) => (this.x === "time" ? value + zoneShift(value) : value));
  }

  zoom(window) {
    const spoken = (value) => String(this.x === "time" ? Math.round(value - zoneShift(value)) : Number(value.toPrecision(6)));
    this.set(window ? { from: spoken(window[0]), to: spoken(window[1]) } : { from: "", to: "" });
  }

  set(values) {
    const anotherAxis = "x" in values && values.x !== this.x ? { from: "", to: "" } : {};
    const settings = { ...values, ...anotherAxis };
    addressSet(Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, value === DEFAULTS[name] ? "" : value])));
    this.#show();
    this.dispatchEvent(new Event("change"));
  }

  #choice(name) {
    const value = addressGet(name, DEFAULTS[name]);
    return CHOICES[name].includes(value) ? value : DEFAULTS[name];
  }

  #bind(control) {
    const name = control.dataset.view;
    control.addEventListener(control.type === "range" ? "input" : "change", () => {
      if (name === "smooth") localStorage.setItem(KEPT, control.value);
      this.set({ [name]: control.type === "checkbox" ? (control.checked ? "1" : "") : control.value });
    });
  }

  #show() {
    for (const control of document.querySelectorAll("[data-view]")) {
      const value = this[control.dataset.view];
      if (control.type === "checkbox") control.checked = value;
      else control.value = String(value);
      if (control.type === "range") control.nextElementSibling.textContent = value.toFixed(2);
    }
    for (const button of document.querySelectorAll("[data-zoom-out]")) button.hidden = !this.window;
  }
}

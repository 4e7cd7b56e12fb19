/* Charts next to the runs table: which runs are drawn, how they are grouped, and links that keep both. */

import { write } from "./announce.js";
import { addressGet, addressSet } from "./address.js";
import { View } from "./charts/view.js";
import { PanelBoard } from "./panels/board.js";

export const CHART_WORDS = ["charts", "shown", "by", "band", "panels", "x", "smooth", "logx", "logy"];
const KEPT = "workspace";
const KEYS = 6;

export class Workspace {
  #board; #shown; #grouping = document.querySelector("[data-group-by]"); #band = document.querySelector("[data-band]");

  constructor(data) {
    this.#shown = remembered() ?? data.shown;
    this.#board = new PanelBoard(data, new View({ tokens: "", episodes: "", env_steps: "" }), "workspace-panels");
    this.#board.addEventListener("change", () => this.#link());
    this.#board.addEventListener("failed", ({ detail }) => detail.status === 404 && localStorage.removeItem(KEPT));
    for (const select of [this.#grouping, this.#band]) select.addEventListener("change", () => this.#changed());
    document.querySelector("[data-hide-all]").addEventListener("click", () => this.#select([]));
    document.addEventListener("click", ({ target }) => {
      const eye = target.closest("[data-eye]");
      if (eye) this.#toggle(eye.dataset.eye);
      const link = target.closest("a[href^='?']");
      if (link && !link.closest(".views, [data-charts-toggle]")) carry(link);
    }, { capture: true });
    for (const form of document.querySelectorAll("form.filters")) form.addEventListener("submit", () => hand(form));
    this.#changed();
  }

  /* Marks the rows of the runs that are drawn. */
  show() {
    for (const eye of document.querySelectorAll("[data-eye]")) eye.setAttribute("aria-pressed", String(this.#shown.includes(eye.dataset.eye)));
    const count = this.#shown.length;
    write(document.querySelector("[data-shown-count]"), count ? `${count} run${count > 1 ? "s" : ""} shown` : "no run shown");
  }

  /* New points of these runs are there. */
  arrived(ids) {
    if (ids.some((id) => this.#shown.includes(id))) this.#board.arrived();
  }

  #toggle(id) {
    this.#select(this.#shown.includes(id) ? this.#shown.filter((other) => other !== id) : [...this.#shown, id]);
  }

  #select(ids) {
    this.#shown = ids;
    localStorage.setItem(KEPT, ids.join(","));
    this.#changed();
  }

  #changed() {
    const by = this.#grouping.value, band = this.#band.value;
    addressSet({ shown: this.#shown.join(",") || "none", by: by === "run" ? "" : by, band: band === "sd" ? "" : band });
    Object.assign(this.#board, { runs: this.#shown, by, band });
    this.show();
    this.#link();
    this.#board.redraw();
  }

  /* The link to the comparison of the drawn runs by the first metrics of the panels. */
  #link() {
    const keys = [...new Set(this.#board.panels.flatMap(({ metrics }) => metrics))].slice(0, KEYS);
    const query = new URLSearchParams({ runs: this.#shown.join(","), by: this.#grouping.value, ...(keys.length && { key: keys.join(",") }) });
    document.querySelector("[data-compare-shown]").search = this.#shown.length ? query : "";
  }
}

/* The runs of the address, otherwise those selected last in this browser unless the address names panels; null if there are none. */
function remembered() {
  const named = addressGet("shown", "");
  if (named) return named === "none" ? [] : named.split(",");
  const selection = addressGet("panels", "") ? null : localStorage.getItem(KEPT);
  return selection === null ? null : selection.split(",").filter(Boolean);
}

/* A link of the table keeps the charts as they are now. */
function carry(link) {
  const query = new URLSearchParams(link.search), now = new URLSearchParams(location.search);
  for (const word of CHART_WORDS) if (now.has(word)) query.set(word, now.get(word));
  link.search = query;
}

/* So does the form of the filters. */
function hand(form) {
  for (const word of CHART_WORDS) {
    const value = addressGet(word, "");
    if (!value) continue;
    const input = form.elements[word] ?? form.appendChild(Object.assign(document.createElement("input"), { type: "hidden", name: word }));
    input.value = value;
  }
}

/* Panels of charts, and the search over them. */

import { follow, reveal } from "../announce.js";
import { addressGet, addressSet } from "../address.js";

export class Curves {
  #board; #specs; #whole;

  constructor(board, specs, whole) {
    this.#board = board;
    this.#specs = specs;
    this.#whole = whole;
    for (const spec of specs) {
      const element = document.getElementById(`chart-${spec.id}`);
      if (element) board.add(element, spec);
    }
    if (document.querySelector("[data-chart-search]")) searching(specs);
  }

  delta(message, unknown) {
    if (this.#whole) fresh(this.#specs, unknown);
  }

  /* The overview: charts of metrics that have arrived since are added; a chart that has not changed stays as it is. */
  again(fresh) {
    const holder = document.querySelector("[data-charts-follow]");
    if (!holder || !fresh) return;
    const before = new Map(this.#specs.map((spec) => [spec.id, JSON.stringify(spec)]));
    if (JSON.stringify(fresh.charts) === JSON.stringify(this.#specs)) return;
    const olds = new Set(holder.children), added = [];
    const elements = fresh.charts.map((spec) => {
      const old = document.getElementById(`chart-${spec.id}`), twin = fresh.page.getElementById(`chart-${spec.id}`);
      if (old && before.get(spec.id) === JSON.stringify(spec)) return old;
      added.push([document.adoptNode(twin), spec]);
      return twin;
    });
    for (const old of olds) if (!elements.includes(old)) this.#board.remove(old);
    holder.replaceChildren(...elements);
    for (const [element, spec] of added) this.#board.add(element, spec);
    for (const head of document.querySelectorAll("[data-charts-head]")) head.hidden = !elements.length;
    this.#specs = fresh.charts;
  }
}

function searching(specs) {
  const search = document.querySelector("[data-chart-search]"), regex = document.querySelector("[data-search-regex]");
  const texts = new Map(specs.map((spec) => [`chart-${spec.id}`, [spec.title, spec.unit, ...spec.lines.map((line) => line.key)]]));
  const look = () => {
    addressSet({ q: search.value, regex: regex.checked ? "1" : "" });
    const { fits, error } = matcher(search.value, regex.checked);
    complain(search, error);
    if (!error) filter((chart) => fits(texts.get(chart.id) ?? []));
  };
  regex.checked = addressGet("regex", "") === "1";
  search.addEventListener("input", look);
  regex.addEventListener("change", look);
  look();
}

/* Words: all of them must occur in title, unit or metrics. A regular expression: in one of these. */
function matcher(text, isRegex) {
  if (!isRegex) {
    const words = text.toLowerCase().split(/\s+/).filter(Boolean);
    return { fits: (texts) => words.every((word) => texts.join(" ").toLowerCase().includes(word)) };
  }
  try {
    const expression = new RegExp(text, "i");
    return { fits: (texts) => texts.some((text) => expression.test(text)) };
  } catch (error) {
    return { error: `${error.message}. The charts are unchanged.` };
  }
}

export function complain(search, error) {
  const element = document.querySelector("[data-search-error]");
  element.hidden = !error;
  element.textContent = error ?? "";
  search.setAttribute("aria-invalid", String(Boolean(error)));
}

function filter(fits) {
  let shown = 0;
  for (const section of document.querySelectorAll("[data-section]")) {
    const charts = [...section.querySelectorAll(".chart")];
    for (const chart of charts) chart.hidden = !fits(chart);
    const some = charts.filter((chart) => !chart.hidden).length;
    section.hidden = !some;
    section.querySelector("[data-shown]").textContent = some === charts.length ? some : `${some} of ${charts.length}`;
    shown += some;
  }
  document.querySelector("[data-no-charts]").hidden = shown > 0;
  follow("charts", `${shown} chart${shown === 1 ? "" : "s"}`);
}

/* Metrics that are not on the page yet: offers to show them; an empty page shows them at once. */
function fresh(specs, unknown) {
  const known = new Set(specs.flatMap((spec) => spec.lines.map((line) => line.key)));
  const notice = document.querySelector("[data-new-metrics]");
  if (!notice || !unknown.some((key) => !known.has(key))) return;
  if (!specs.length) location.reload();
  else reveal(notice);
}

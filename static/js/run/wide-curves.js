/* Charts of a run with many metrics: the server searches, and further charts are loaded when the end of the list is near the window. */

import { announce, follow } from "../announce.js";
import { addressGet, addressSet } from "../address.js";
import { atMost, data, edited } from "../dom.js";
import { complain } from "./curves.js";

const PAUSE = 250; // milliseconds between searches

export class WideCurves {
  #board; #search = document.querySelector("[data-chart-search]"); #regex = document.querySelector("[data-search-regex]");
  #select = document.querySelector("[data-sections] select"); #link = document.querySelector("[data-charts-more]");
  #end = document.querySelector("[data-charts-end]"); #busy = false; #asked = 0;

  constructor(board, specs) {
    this.#board = board;
    this.#add(specs);
    this.#regex.checked = addressGet("regex", "") === "1";
    const changed = atMost(PAUSE, () => this.#searched());
    for (const control of [this.#search, this.#regex, this.#select]) control.addEventListener(control === this.#search ? "input" : "change", changed);
    if (edited(this.#search) || edited(this.#select)) changed();
    this.#select.form.addEventListener("submit", (event) => event.preventDefault());
    this.#link.addEventListener("click", (event) => {
      event.preventDefault();
      this.#more();
    });
    new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && this.#more(), { rootMargin: "400px" }).observe(this.#end);
  }

  /* Nothing of a delta concerns the list: new metrics appear in the next search. */
  delta() {}

  async #searched() {
    const section = this.#select.value, asked = ++this.#asked;
    addressSet({ q: this.#search.value, regex: this.#regex.checked ? "1" : "", section });
    const part = await this.#read("").catch((error) => error);
    if (asked !== this.#asked) return;
    const wrong = part instanceof Error ? `${part.message} The charts are unchanged.` : part.error && `${part.error} The charts are unchanged.`;
    complain(this.#search, wrong || "");
    if (wrong) return;
    const root = document.querySelector("[data-chart-sections]");
    for (const chart of root.querySelectorAll(".chart")) this.#board.remove(chart);
    root.replaceChildren(...part.sections);
    if (this.#select.value === section) { // otherwise the next search replaces the options
      this.#select.replaceChildren(...part.options);
      this.#select.value = section;
    }
    this.#add(part.specs);
    this.#after(part.after);
    document.querySelector("[data-no-charts]").hidden = part.specs.length > 0;
    const matching = document.querySelector("[data-matching]");
    matching.textContent = `${Number(part.matching).toLocaleString("en")} metrics match. Charts are loaded while you scroll.`;
    follow("charts", matching.textContent);
  }

  async #more() {
    if (this.#busy || this.#link.hidden) return;
    this.#busy = true;
    const asked = this.#asked;
    try {
      const part = await this.#read(new URL(this.#link.href).searchParams.get("after"));
      if (asked !== this.#asked) return;
      this.#append(part);
      this.#after(part.after);
    } catch (error) {
      announce("charts", `Charts are not loaded: ${error.message}`, true);
    } finally {
      this.#busy = false;
    }
  }

  /* Specs, sections, options and numbers of a part of this search. */
  async #read(after) {
    const address = new URL(location.href);
    for (const [name, value] of Object.entries({ after, part: "charts" })) address.searchParams.set(name, value);
    const answer = await fetch(address, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}.`);
    const holder = new DOMParser().parseFromString(await answer.text(), "text/html"), part = holder.querySelector("[data-part]");
    const adopted = (elements) => [...elements].map((element) => document.adoptNode(element));
    return { ...part.dataset, specs: data("part-charts", holder), sections: adopted(part.children), options: adopted(holder.querySelector("[data-part-sections]").children) };
  }

  /* The first section of a part may be the last one of the page. Parts may have charts with the same id. */
  #append({ sections, specs }) {
    const root = document.querySelector("[data-chart-sections]");
    for (const spec of specs) {
      const element = sections.map((section) => section.querySelector(`#${CSS.escape(`chart-${spec.id}`)}`)).find(Boolean);
      while (document.getElementById(`chart-${spec.id}`)) spec.id += "-more";
      element.id = `chart-${spec.id}`;
      element.querySelector("h3").id = `chart-${spec.id}-title`;
      element.setAttribute("aria-labelledby", `chart-${spec.id}-title`);
    }
    const [first, ...others] = sections, last = root.lastElementChild;
    if (first && first.dataset.section === last?.dataset.section) {
      last.querySelector(".charts").append(...first.querySelector(".charts").children);
      root.append(...others);
    } else root.append(...sections);
    this.#add(specs);
  }

  #add(specs) {
    for (const spec of specs) {
      const element = document.getElementById(`chart-${spec.id}`);
      if (element) this.#board.add(element, spec);
    }
  }

  #after(name) {
    this.#link.hidden = !name;
    const address = new URL(location.href);
    address.searchParams.set("after", name);
    this.#link.href = address;
  }
}

/* The log of a run. Lines are read from the API by id, so each is drawn once and in order. At most MOST lines are in the page: while its
   end is visible the oldest leave it, and are loaded again on request; while the reader looks at earlier lines, none leave. */

import { announce } from "../announce.js";
import { el } from "../dom.js";
import { readJson } from "../requests.js";

const MOST = 2000, PAGE = 1000, NEAR_END = 40;
const CUT = 200; // characters of a line that are announced
const FAR = 20000; // Ids behind the newest line from which the end is loaded instead of every line up to it.

export class Logs {
  #run;
  #list = document.querySelector("[data-logs]");
  #cursor = 0; // Every line up to this id has been read.
  #newest = 0; // Highest id that the feed has reported.
  #unsure = true; // There may be lines that the feed has not reported.
  #reading = false;
  #pinned = false;

  constructor(runId) {
    this.#run = runId;
    if (!this.#list) return;
    this.#cursor = number(this.#list.lastElementChild);
    button("earlier").addEventListener("click", () => this.#alone(() => this.#earlier()));
    button("later").addEventListener("click", () => this.#alone(() => this.#end()));
    this.#list.addEventListener("scroll", () => {
      this.#pinned = this.#atEnd;
      this.#follow();
    }, { passive: true });
    addEventListener("resize", () => this.#pinned && this.#pin());
    const target = location.hash === "#traceback" && document.getElementById("traceback");
    if (target) target.scrollIntoView({ block: "start" });
    else this.#pin();
    this.#follow();
  }

  delta({ log }) {
    this.#newest = Math.max(this.#newest, log ?? 0);
    this.#follow();
  }

  again() {
    this.#unsure = true;
    this.#follow();
  }

  get #atEnd() {
    return this.#list.scrollHeight - this.#list.scrollTop - this.#list.clientHeight < NEAR_END;
  }

  get #behind() {
    return (this.#unsure || this.#newest > this.#cursor) && (this.#atEnd || this.#list.children.length < MOST);
  }

  #follow() {
    if (!this.#list) return;
    button("later").hidden = this.#atEnd;
    if (!this.#reading && this.#behind) this.#alone(() => this.#forward());
  }

  /* One reader at a time; afterwards the lines that have arrived meanwhile are read. */
  async #alone(work) {
    if (this.#reading) return;
    this.#reading = true;
    const error = document.querySelector("[data-logs-error]");
    let done = false;
    try {
      await work();
      done = true;
    } catch (failure) {
      error.textContent = `The log could not be read: ${failure.message}. It is read again when the run reports something.`;
      this.#unsure = true;
    }
    error.hidden = done;
    this.#reading = false;
    if (done) this.#follow();
  }

  async #forward() {
    if (this.#newest - this.#cursor > FAR && this.#atEnd && this.#cursor) return this.#end();
    const newest = this.#newest;
    this.#unsure = false;
    const lines = await this.#read({ after: this.#cursor });
    const atEnd = this.#atEnd, last = lines.at(-1)?.id ?? 0;
    this.#unsure ||= lines.length === PAGE;
    this.#cursor = Math.max(this.#cursor, last, lines.length < PAGE ? newest : 0);
    this.#list.append(...lines.map(drawn));
    const failure = lines.findLast((line) => line.level === "error");
    if (failure) announce("log", `Error in the log, from ${failure.source}: ${failure.message.slice(0, CUT)}`);
    if (atEnd) {
      this.#shorten("firstElementChild");
      this.#pin();
    }
  }

  async #earlier() {
    const first = this.#list.firstElementChild;
    const lines = await this.#read({ before: number(first) });
    this.#list.prepend(...lines.map(drawn));
    button("earlier").hidden = lines.length < PAGE;
    if (this.#shorten("lastElementChild")) {
      this.#cursor = number(this.#list.lastElementChild);
      this.#unsure = true;
    }
    if (first) this.#list.scrollTop = first.offsetTop;
    this.#list.focus({ preventScroll: true });
  }

  async #end() {
    const lines = await this.#read({});
    this.#list.replaceChildren(...lines.map(drawn));
    this.#cursor = lines.at(-1)?.id ?? this.#cursor;
    this.#unsure = true;
    button("earlier").hidden = lines.length < PAGE;
    this.#pin();
  }

  async #read(range) {
    const { level, source, search } = this.#list.dataset;
    const wanted = Object.entries({ ...range, limit: PAGE, level, source, q: search }).filter(([, value]) => value !== "");
    const { results } = await readJson(`/api/v1/runs/${this.#run}/logs/?${new URLSearchParams(wanted)}`);
    if (results.length) document.querySelector("[data-no-logs]")?.remove();
    this.#sources(results);
    return results;
  }

  /* Sources that appear while the page is open can be chosen, too. */
  #sources(lines) {
    const select = document.querySelector('select[name="source"]');
    const offered = new Set([...select.options].map((option) => option.value));
    for (const name of new Set(lines.map((line) => line.source))) if (!offered.has(name)) select.add(new Option(name, name));
  }

  /* Removes what exceeds MOST, from one end. Returns whether anything was. */
  #shorten(side) {
    const more = this.#list.children.length - MOST;
    for (let count = 0; count < more; count++) this.#list[side].remove();
    if (more > 0 && side === "firstElementChild") button("earlier").hidden = false;
    return more > 0;
  }

  #pin() {
    this.#list.scrollTop = this.#list.scrollHeight;
  }
}

function button(name) {
  return document.querySelector(`[data-${name}]`);
}

function number(line) {
  return Number(line?.dataset.line ?? 0);
}

function drawn(line) {
  return el("li", { class: `log ${line.level}`, "data-line": line.id },
    el("time", { datetime: line.time }, new Date(line.time).toISOString().slice(11, 19)),
    el("span", { class: "level" }, line.level), el("span", { class: "source", title: line.source }, line.source),
    el("span", { class: "text" }, line.message));
}

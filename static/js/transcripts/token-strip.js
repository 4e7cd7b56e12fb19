/* The tokens of one answer as coloured words, loaded from the server in pieces on scrolling. Arrow keys move along. */

import { el } from "../dom.js";
import { readJson } from "../requests.js";
import { MEASURES, known, spoken, visible } from "./measures.js";

const CHUNK = 250; // tokens in one element, which the browser does not draw while it is not visible
const ARRAYS = ["tokens", "token_ids", "logprobs", "versions", "ratios", "entropies", "training_logprobs", "mismatch", "masks"];

export class TokenStrip {
  #root; #address; #end; #observer; #by = ""; #onPoint; #asked = null;
  data = null;

  /* `onPoint` is called with (strip, position) of the token under the pointer or with the focus. */
  constructor(root, address, onPoint = () => {}) {
    this.#root = root;
    this.#address = address;
    this.#onPoint = onPoint;
    this.#end = el("span", { class: "token-end" });
    this.#observer = new IntersectionObserver((seen) => seen.some((entry) => entry.isIntersecting) && this.#more(), { root, rootMargin: "600px" });
    this.#asked = new AbortController();
    const { signal } = this.#asked;
    for (const type of ["pointerover", "focusin", "click"]) root.addEventListener(type, (event) => this.#point(event), { signal });
    root.addEventListener("keydown", (event) => this.#step(event), { signal });
  }

  get known() { return known(this.data); }

  /* Reads the first tokens. Throws an Error with the reason if it cannot. */
  async load() {
    this.take(await this.#read(0));
  }

  /* Colours by a measure ("" for none, "token_ids" to show ids instead of text). */
  draw(by) {
    this.#by = by;
    this.#root.replaceChildren(...this.#chunks(0), this.#end);
    this.#roving(0);
    this.#watch();
  }

  close() {
    this.#asked.abort();
    this.#observer.disconnect();
  }

  async #read(from) {
    const address = `${this.#address}${this.#address.includes("?") ? "&" : "?"}from=${from}`;
    return readJson(address, this.#asked.signal).catch((error) => {
      throw error.status === 404 ? new Error("its tokens are not stored") : error;
    });
  }

  /* Adds tokens that were read; the first ones before all others. */
  take(piece) {
    if (!this.data) this.data = piece;
    else for (const name of ARRAYS) this.data[name]?.push(...(piece[name] ?? []));
    this.data.newest = this.data.versions?.reduce((one, other) => Math.max(one, other), 0);
  }

  get #length() { return (this.data.tokens ?? this.data.token_ids ?? []).length; }

  #watch() {
    this.#observer.disconnect();
    if (this.#length < this.data.count) this.#observer.observe(this.#end);
  }

  async #more() {
    this.#observer.disconnect();
    const first = this.#length;
    try {
      this.take(await this.#read(first));
    } catch {
      return; // closed, or the server is unreachable: loaded tokens stay readable
    }
    this.#end.before(...this.#chunks(first));
    this.#watch();
  }

  #chunks(first) {
    const chunks = [];
    for (let begin = first; begin < this.#length; begin += CHUNK) {
      const last = Math.min(begin + CHUNK, this.#length);
      chunks.push(el("span", { class: "token-chunk" }, Array.from({ length: last - begin }, (_, index) => this.#token(begin + index))));
    }
    return chunks;
  }

  #token(index) {
    const measure = MEASURES[this.#by];
    const value = measure?.of(this.data, index);
    const heat = value === undefined || Number.isNaN(value) ? 0 : measure.heat(value, this.data);
    const name = `token ${heat >= 0 ? "up" : "down"}${this.data.masks?.[index] === 0 ? " masked" : ""}`;
    const text = this.#by === "token_ids" ? String(this.data.token_ids?.[index] ?? "–") : visible(this.data.tokens?.[index] ?? "");
    const label = value === undefined ? null : `${measure.head} ${spoken(measure, value)}`;
    return el("button", { type: "button", class: name, "data-heat": Math.min(4, Math.ceil(Math.abs(heat) * 4)), "data-token": index, tabindex: -1, title: label }, text);
  }

  #point({ target }) {
    const token = target.closest("[data-token]");
    if (!token) return;
    this.#roving(Number(token.dataset.token));
    this.#onPoint(this, Number(token.dataset.token));
  }

  #roving(index) {
    for (const marked of this.#root.querySelectorAll(".token[tabindex='0'], .token.here")) {
      marked.tabIndex = -1;
      marked.classList.remove("here");
    }
    const token = this.#root.querySelector(`[data-token="${index}"]`);
    if (!token) return;
    token.tabIndex = 0;
    token.classList.add("here");
  }

  #step(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !event.target.dataset.token) return;
    event.preventDefault();
    event.stopPropagation();
    this.#root.querySelector(`[data-token="${Number(event.target.dataset.token) + step}"]`)?.focus();
  }
}

/* The tokens of a group's candidates, each in its card, coloured by one measure. The page contains the first ones. */

import { el } from "../dom.js";
import { MEASURES, known, scaleText } from "./measures.js";
import { readout } from "./readout.js";
import { TokenStrip } from "./token-strip.js";

const TEXT = "text";
let wanted = new URLSearchParams(location.search).get("by") ?? "";

export class CardTokens {
  #root; #by; #strips = new Map(); #loaded = new Set(); #drawn = new Map(); #observer;

  constructor(root) {
    this.#root = root;
    this.#by = root.querySelector("[data-tokens-by]");
    this.#by.addEventListener("change", () => this.#choose());
    this.#observer = new IntersectionObserver((seen) => {
      for (const { target, isIntersecting } of seen) if (isIntersecting) this.#load(target);
    }, { rootMargin: "400px" });
    for (const card of root.querySelectorAll("[data-card-tokens]")) this.#observer.observe(card.parentElement);
    this.#options();
  }

  close() {
    this.#observer.disconnect();
    for (const strip of this.#strips.values()) strip.close();
  }

  #load(card) {
    this.#observer.unobserve(card);
    const box = card.querySelector("[data-card-tokens]");
    const strip = new TokenStrip(box, box.dataset.cardTokens, (_, index) => this.#read(card, strip, index));
    this.#strips.set(card, strip);
    strip.take(JSON.parse(box.dataset.firstTokens));
    if (!strip.data.count) return; // the card shows its text
    this.#loaded.add(card);
    this.#options();
    for (const other of this.#loaded) this.#draw(other);
    this.#scale();
    if (!this.#part("token-readout").children.length && this.#measure !== TEXT) this.#read(card, strip, 0);
  }

  get #measures() {
    const names = [...this.#loaded].flatMap((card) => known(this.#strips.get(card).data));
    return Object.keys(MEASURES).filter((name) => names.includes(name));
  }

  get #measure() {
    const names = this.#measures;
    return wanted === TEXT || names.includes(wanted) ? wanted : names[0] ?? TEXT;
  }

  #options() {
    const options = [...this.#measures.map((name) => [name, MEASURES[name].label]), [TEXT, "text only"]];
    this.#by.replaceChildren(...options.map(([name, label]) => el("option", { value: name }, label)));
    this.#by.value = this.#measure;
  }

  #choose() {
    wanted = this.#by.value;
    remember();
    for (const card of this.#loaded) this.#draw(card);
    const [first] = this.#loaded;
    if (wanted === TEXT || !first) this.#part("token-readout").replaceChildren();
    else this.#read(first, this.#strips.get(first), 0);
    this.#scale();
  }

  #draw(card) {
    const by = this.#measure;
    card.querySelector("[data-card-tokens]").hidden = by === TEXT;
    card.querySelector("[data-card-text]").hidden = by !== TEXT;
    if (by !== TEXT && this.#drawn.get(card) !== by) this.#strips.get(card).draw(by);
    this.#drawn.set(card, by);
  }

  #scale() {
    const by = this.#measure;
    this.#part("token-scale").textContent = by === TEXT ? "" : scaleText(by, [...this.#loaded].map((card) => this.#strips.get(card).data));
  }

  #read(card, strip, index) {
    this.#part("token-readout").replaceChildren(...readout(strip.data, index, [["candidate", card.dataset.card]]));
  }

  #part(name) { return this.#root.querySelector(`[data-${name}]`); }
}

/* Keeps the chosen measure in the address, which each step in the tree replaces. */
export function remember() {
  if (!wanted) return;
  const address = new URL(location.href);
  address.searchParams.set("by", wanted);
  history.replaceState(history.state, "", address);
}

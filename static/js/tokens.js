/* The tokens of one answer, coloured by what is known of them; hover or focus joins strip and table. */

import { el } from "./dom.js";
import { fixed } from "./format.js";

const MEASURES = {
  logprobs: { label: "log-probability", head: "logprob", heat: (value) => -Math.min(1, -value / 3) },
  advantage: { label: "advantage", head: "advantage", heat: (value) => Math.max(-1, Math.min(1, value / 2)) },
  ratios: { label: "probability ratio", head: "ratio", heat: (value) => Math.max(-1, Math.min(1, (value - 1) / 0.2)) },
  entropies: { label: "entropy", head: "entropy", heat: (value) => -Math.min(1, value / 1.5) },
  training_logprobs: { label: "learner's logprob", head: "learner", heat: (value) => -Math.min(1, -value / 3) },
};

export class TokenView {
  #turns; #root = document.querySelector("[data-tokens]"); #by; #shown = null;

  constructor(turns) {
    this.#turns = turns;
    this.#by = this.#root.querySelector("[data-tokens-by]");
    this.#by.addEventListener("change", () => this.#draw());
    for (const type of ["pointerover", "focusin"]) this.#root.addEventListener(type, (event) => this.#join(event.target));
  }

  show(turn, candidate) {
    this.#shown = { turn, candidate };
    this.#root.hidden = false;
    this.#draw();
  }

  #draw() {
    const { turn, candidate } = this.#shown;
    const said = this.#turns[turn].candidates[candidate];
    const known = Object.keys(MEASURES).filter((name) => name === "advantage" ? said.advantage !== undefined : said[name]?.length);
    const by = known.includes(this.#by.value) ? this.#by.value : known[0];
    this.#by.replaceChildren(...known.map((name) => el("option", { value: name, selected: name === by }, MEASURES[name].label)));
    this.#by.value = by;
    const executed = candidate === this.#turns[turn].executed ? "carried on" : `candidate ${candidate + 1}`;
    this.#root.querySelector("[data-tokens-note]").textContent = `of #${turn + 1}, ${executed}`;
    const values = (name, index) => Number(name === "advantage" ? said.advantage : said[name][index]);
    this.#root.querySelector("[data-token-strip]").replaceChildren(...said.tokens.map((token, index) => strip(token, index, by ? MEASURES[by].heat(values(by, index)) : 0, by ? values(by, index) : null)));
    const columns = known.filter((name) => name !== "advantage");
    this.#root.querySelector("[data-token-head]").replaceChildren(el("tr", {}, el("th", { scope: "col" }, "token"), ...columns.map((name) => el("th", { scope: "col", class: "num" }, MEASURES[name].head))));
    this.#root.querySelector("[data-token-rows]").replaceChildren(...said.tokens.map((token, index) =>
      el("tr", { "data-token": index }, el("td", {}, visible(token)), ...columns.map((name) => el("td", { class: "num" }, fixed(values(name, index), 3))))));
  }

  #join(target) {
    const index = target.closest("[data-token]")?.dataset.token;
    if (index === undefined) return;
    for (const each of this.#root.querySelectorAll("[data-token]")) each.classList.toggle("here", each.dataset.token === index);
  }
}

function strip(token, index, heat, value) {
  const strength = Math.min(4, Math.ceil(Math.abs(heat) * 4));
  return el("span", { class: `token ${heat >= 0 ? "up" : "down"}`, "data-heat": strength, "data-token": index, tabindex: 0, title: value === null ? null : fixed(value, 3) }, visible(token));
}

/* Spaces and line ends are shown, so that every token can be seen. */
function visible(token) {
  return token.replaceAll("\n", "⏎").replaceAll("\t", "⇥") || "∅";
}

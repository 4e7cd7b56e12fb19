/* The panel next to a transcript: tokens of the current answer, the colouring measure, values of the token under the pointer. */

import { el } from "../dom.js";
import { count } from "../format.js";
import { MEASURES, scaleText } from "./measures.js";
import { readout } from "./readout.js";
import { TokenStrip } from "./token-strip.js";

const IDS = "token_ids";

export class TokenPanel {
  #root; #episode; #by; #wanted; #strip = null; #asked = "";

  constructor(root, episode) {
    this.#root = root;
    this.#episode = episode;
    this.#wanted = new URLSearchParams(location.search).get("by") ?? "";
    this.#by = root.querySelector("[data-tokens-by]");
    this.#by.addEventListener("change", () => this.#choose());
  }

  /* `number` from 1, `candidate` from 0. */
  async show(number, candidate, executed) {
    const asked = `${number}/${candidate}`;
    if (asked === this.#asked) return;
    this.#asked = asked;
    this.#strip?.close();
    this.#root.hidden = false;
    this.#note(`of #${number}, ${executed ? "selected" : `candidate ${candidate + 1}`}`);
    const strip = new TokenStrip(this.#part("token-strip"), `/api/v1/episodes/${this.#episode}/turns/${number}/tokens/?candidate=${candidate + 1}`, (_, index) => this.#read(index));
    this.#strip = strip;
    this.#root.setAttribute("aria-busy", "true");
    try {
      await strip.load();
    } catch (error) {
      if (asked === this.#asked) this.#part("token-strip").replaceChildren(el("span", { class: "quiet" }, `Not loaded: ${error.message}`));
      return;
    } finally {
      if (asked === this.#asked) this.#root.removeAttribute("aria-busy");
    }
    if (asked === this.#asked) this.#draw(strip);
  }

  #draw(strip) {
    const known = strip.known;
    const by = [...known, IDS].includes(this.#wanted) ? this.#wanted : known[0] ?? IDS;
    const options = [...known.map((name) => [name, MEASURES[name].label]), [IDS, "token ids"]];
    this.#by.replaceChildren(...options.map(([name, label]) => el("option", { value: name, selected: name === by }, label)));
    this.#by.value = by;
    strip.draw(by);
    if (!strip.data.count) this.#part("token-strip").replaceChildren(el("span", { class: "quiet" }, "No tokens were reported for this answer."));
    this.#part("token-scale").textContent = scaleText(by, [strip.data]);
    this.#read(0);
    const prompt = strip.data.prompt_ids;
    this.#part("prompt").hidden = !prompt.length;
    this.#part("prompt-count").textContent = `Ids of the ${count(prompt.length)} prompt tokens`;
    this.#part("prompt-ids").textContent = prompt.join(" ");
  }

  #choose() {
    this.#wanted = this.#by.value;
    const address = new URL(location.href);
    address.searchParams.set("by", this.#wanted);
    history.replaceState(null, "", address);
    if (this.#strip?.data) this.#draw(this.#strip);
  }

  #read(index) {
    const { data } = this.#strip;
    this.#part("token-readout").replaceChildren(...(data?.count ? readout(data, index) : []));
  }

  #part(name) { return this.#root.querySelector(`[data-${name}]`); }

  #note(text) { this.#part("tokens-note").textContent = text; }
}

/* The dialog that chooses the columns of the runs table. The selection goes into the address as `columns`. */

import { el } from "./dom.js";
import { Completion } from "./filter.js";

export class ColumnsDialog {
  #dialog; #list; #input; #before; #words;

  constructor(dialog) {
    this.#dialog = dialog;
    this.#list = dialog.querySelector("[data-chosen-columns]");
    this.#input = dialog.querySelector("input[id]");
    this.#before = [...this.#list.children].map((item) => item.dataset.word);
    new Completion(this.#input, () => this.#add());
    this.#input.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !this.#input.value.trim()) return;
      event.preventDefault();
      this.#add();
    });
    dialog.querySelector("[data-columns-standard]").addEventListener("click", () => this.#draw(dialog.dataset.standard.split(",")));
    dialog.querySelector("[data-columns-close]").addEventListener("click", () => dialog.close());
    dialog.querySelector("form").addEventListener("submit", (event) => this.#submit(event));
  }

  open() {
    this.#draw([...this.#before]);
    this.#dialog.showModal();
    this.#input.focus();
  }

  #add() {
    const word = this.#input.value.trim();
    this.#input.value = "";
    this.#draw(word && !this.#words.includes(word) ? [...this.#words, word] : this.#words);
  }

  #move(index, by) {
    const words = [...this.#words], [word] = words.splice(index, 1);
    words.splice(Math.max(0, Math.min(words.length, index + by)), 0, word);
    this.#draw(words);
    this.#list.children[words.indexOf(word)].querySelector(by < 0 ? "[aria-label^='Earlier']" : "[aria-label^='Later']").focus();
  }

  #remove(index) {
    this.#draw(this.#words.toSpliced(index, 1));
    this.#input.focus();
  }

  #draw(words) {
    this.#words = words;
    this.#list.replaceChildren(...words.map((word, index) => el("li", { "data-word": word }, el("span", { class: "mono" }, word), el("span", { class: "acts" },
      act(word, "Earlier:", "↑", () => this.#move(index, -1)),
      act(word, "Later:", "↓", () => this.#move(index, 1)),
      act(word, "Remove", "×", () => this.#remove(index))))));
  }

  #submit(event) {
    event.preventDefault();
    if (this.#input.value.trim()) this.#add();
    const query = new URLSearchParams(location.search), chosen = this.#words.join(",");
    if (chosen && chosen !== this.#dialog.dataset.standard) query.set("columns", chosen);
    else query.delete("columns");
    location.search = query;
  }
}

function act(word, label, text, work) {
  const button = el("button", { class: "button small plain", type: "button", "aria-label": `${label} ${word}` }, text);
  button.addEventListener("click", work);
  return button;
}

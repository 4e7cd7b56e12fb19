/* Suggestions for a field, selected with the arrows and Tab or Enter: in the filter of the runs table, or, if
   `taken` is given, as the whole of a field. */

import { el } from "./dom.js";
import { readJson } from "./requests.js";

const PAUSE = 120; // milliseconds without typing before suggestions are read

export class Completion {
  #input; #taken; #list; #start = 0; #chosen = -1; #asked = 0; #timer = null;

  constructor(input, taken = null) {
    this.#input = input;
    this.#taken = taken;
    const id = `${input.id || input.name}-options`;
    this.#list = el("ul", { class: "options", role: "listbox", id, "aria-label": "Suggestions", hidden: true });
    input.closest(".field").append(this.#list);
    const roles = { role: "combobox", "aria-autocomplete": "list", "aria-controls": id, "aria-expanded": "false" };
    for (const [name, value] of Object.entries(roles)) input.setAttribute(name, value);
    input.addEventListener("input", () => this.#ask());
    input.addEventListener("blur", () => this.#close());
    input.addEventListener("keydown", (event) => this.#key(event));
    this.#list.addEventListener("mousedown", (event) => {
      event.preventDefault();
      const item = event.target.closest("li");
      if (item) this.#take(item);
    });
  }

  #ask() {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(async () => {
      const number = (this.#asked += 1);
      const query = new URLSearchParams({ text: this.#input.value.slice(0, this.#input.selectionStart) });
      try {
        const suggestions = await readJson(`${this.#input.dataset.source}?${query}`);
        if (number === this.#asked && document.activeElement === this.#input) this.#show(suggestions);
      } catch { /* Without the server there are no suggestions; the filter can still be typed. */ }
    }, PAUSE);
  }

  #show({ start, options }) {
    const chosen = this.#list.children[this.#chosen]?.dataset.text;
    this.#start = start;
    this.#chosen = -1;
    this.#input.removeAttribute("aria-activedescendant");
    this.#list.replaceChildren(...options.map(({ text, note }, index) => el("li",
      { role: "option", id: `${this.#list.id.slice(0, -1)}-${index}`, "aria-selected": "false", "data-text": text },
      el("span", null, text), el("span", { class: "note" }, note))));
    this.#list.hidden = !options.length;
    this.#input.setAttribute("aria-expanded", String(options.length > 0));
    const index = options.findIndex(({ text }) => text === chosen); // chosen before a late answer
    if (index >= 0) this.#mark(index);
  }

  #key(event) {
    const { key } = event, list = this.#list;
    if (key === "ArrowDown" && list.hidden) this.#ask();
    if (list.hidden) return;
    if (key === "ArrowDown" || key === "ArrowUp") this.#mark(key === "ArrowDown" ? this.#chosen + 1 : Math.max(this.#chosen, 0) - 1);
    else if (key === "Escape") this.#close();
    else if (key === "Tab" && !event.shiftKey) this.#take(list.children[Math.max(this.#chosen, 0)]);
    else if (key === "Enter" && this.#chosen >= 0) this.#take(list.children[this.#chosen]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  #mark(index) {
    const items = [...this.#list.children];
    this.#chosen = (index + items.length) % items.length;
    items.forEach((item, index) => item.setAttribute("aria-selected", String(index === this.#chosen)));
    this.#input.setAttribute("aria-activedescendant", items[this.#chosen].id);
    items[this.#chosen].scrollIntoView({ block: "nearest" });
  }

  #take(item) {
    const input = this.#input;
    if (this.#taken) {
      input.value = item.dataset.text;
      this.#close();
      return this.#taken();
    }
    const rest = input.value.slice(input.selectionStart), text = `${item.dataset.text} `;
    input.value = input.value.slice(0, this.#start) + text + rest.trimStart();
    input.setSelectionRange(this.#start + text.length, this.#start + text.length);
    input.focus();
    this.#close();
    this.#ask();
  }

  #close() {
    this.#asked += 1;
    clearTimeout(this.#timer);
    this.#list.hidden = true;
    this.#chosen = -1;
    this.#input.setAttribute("aria-expanded", "false");
    this.#input.removeAttribute("aria-activedescendant");
  }
}

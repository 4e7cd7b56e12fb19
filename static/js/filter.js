/* Suggestions for a field, selected with the arrows and Tab or Enter: in the filter of the runs table, or, if
   `taken` is given, as the whole of a field. */

import { el } from "./dom.js";
import { readJson } from "./requests.js";

export function completing(input, taken = null) {
  const id = input.id || input.name, list = el("ul", { class: "options", role: "listbox", id: `${id}-options`, "aria-label": "Suggestions", hidden: true });
  input.closest(".field").append(list);
  for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-controls": list.id, "aria-expanded": "false" })) input.setAttribute(name, value);
  let start = 0, chosen = -1, asked = 0, timer = null;

  const close = () => {
    asked += 1;
    clearTimeout(timer);
    list.hidden = true;
    chosen = -1;
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  };

  const mark = (index) => {
    const items = [...list.children];
    chosen = (index + items.length) % items.length;
    items.forEach((item, place) => item.setAttribute("aria-selected", String(place === chosen)));
    input.setAttribute("aria-activedescendant", items[chosen].id);
    items[chosen].scrollIntoView({ block: "nearest" });
  };

  const take = (item) => {
    if (taken) {
      input.value = item.dataset.text;
      close();
      return taken();
    }
    const rest = input.value.slice(input.selectionStart), text = `${item.dataset.text} `;
    input.value = input.value.slice(0, start) + text + rest.trimStart();
    input.setSelectionRange(start + text.length, start + text.length);
    input.focus();
    close();
    ask();
  };

  const show = ({ start: from, options }) => {
    start = from;
    chosen = -1;
    list.replaceChildren(...options.map(({ text, note }, index) => el("li", { role: "option", id: `${id}-option-${index}`, "aria-selected": "false", "data-text": text }, el("span", null, text), el("span", { class: "note" }, note))));
    list.hidden = !options.length;
    input.setAttribute("aria-expanded", String(options.length > 0));
  };

  const ask = () => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const number = (asked += 1), query = new URLSearchParams({ text: input.value.slice(0, input.selectionStart) });
      try {
        const suggestions = await readJson(`${input.dataset.source}?${query}`);
        if (number === asked && document.activeElement === input) show(suggestions);
      } catch { /* Without the server there are no suggestions; the filter can still be typed. */ }
    }, 120);
  };

  input.addEventListener("input", ask);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" && list.hidden) ask();
    if (list.hidden) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") mark(event.key === "ArrowDown" ? chosen + 1 : Math.max(chosen, 0) - 1);
    else if (event.key === "Escape") close();
    else if (event.key === "Tab" && !event.shiftKey) take(list.children[Math.max(chosen, 0)]);
    else if (event.key === "Enter" && chosen >= 0) take(list.children[chosen]);
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
  list.addEventListener("mousedown", (event) => {
    event.preventDefault();
    const item = event.target.closest("li");
    if (item) take(item);
  });
}

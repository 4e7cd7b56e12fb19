/* The dialog that chooses the columns of the runs table. The selection goes into the address as `columns`. */

import { el } from "./dom.js";
import { completing } from "./filter.js";

export function columnsDialog(dialog) {
  const list = dialog.querySelector("[data-chosen-columns]"), input = dialog.querySelector("input[id]");
  const before = [...list.children].map((item) => item.dataset.word);
  let words = [...before];

  const act = (word, label, text, work) => {
    const button = el("button", { class: "button small plain", type: "button", "aria-label": `${label} ${word}` }, text);
    button.addEventListener("click", work);
    return button;
  };

  const move = (place, by) => {
    const [word] = words.splice(place, 1);
    words.splice(Math.max(0, Math.min(words.length, place + by)), 0, word);
    draw();
    list.children[words.indexOf(word)].querySelector(by < 0 ? "[aria-label^='Earlier']" : "[aria-label^='Later']").focus();
  };

  const draw = () => {
    list.replaceChildren(...words.map((word, place) => el("li", { "data-word": word }, el("span", { class: "mono" }, word), el("span", { class: "acts" },
      act(word, "Earlier:", "↑", () => move(place, -1)),
      act(word, "Later:", "↓", () => move(place, 1)),
      act(word, "Remove", "×", () => { words.splice(place, 1); draw(); input.focus(); })))));
  };

  const add = () => {
    const word = input.value.trim();
    if (word && !words.includes(word)) words.push(word);
    input.value = "";
    draw();
  };

  completing(input, add);
  input.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !input.value.trim()) return;
    event.preventDefault();
    add();
  });

  dialog.querySelector("[data-columns-standard]").addEventListener("click", () => {
    words = dialog.dataset.standard.split(",");
    draw();
  });
  dialog.querySelector("[data-columns-close]").addEventListener("click", () => dialog.close());
  dialog.querySelector("form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (input.value.trim()) add();
    const query = new URLSearchParams(location.search), chosen = words.join(",");
    if (chosen && chosen !== dialog.dataset.standard) query.set("columns", chosen);
    else query.delete("columns");
    location.search = query;
  });

  return () => {
    words = [...before];
    draw();
    dialog.showModal();
    input.focus();
  };
}

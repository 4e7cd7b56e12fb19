/* Logged tables: a click on a column sorts, a text filters. The page has the first rows; the others are read at the first use. */

import { el } from "../dom.js";
import { count } from "../format.js";
import { readJson } from "../requests.js";

const MOST = 200; // rows in the document
const choices = new Map(); // sort and filter by table, which another step keeps

export function mediaTables(root) {
  for (const element of root.querySelectorAll("[data-media-table]")) new MediaTable(element);
}

class MediaTable {
  #element; #read = null; #filter; #chosen; #shown = []; #classes = [];

  constructor(element) {
    this.#element = element;
    this.#chosen = choices.get(element.dataset.key) ?? { column: -1, down: false, words: "" };
    choices.set(element.dataset.key, this.#chosen);
    this.#filter = element.querySelector("input[type=search]");
    this.#filter.value = this.#chosen.words;
    this.#filter.parentElement.hidden = false;
    this.#filter.addEventListener("input", () => {
      this.#chosen.words = this.#filter.value;
      this.#show();
    });
    element.querySelectorAll("thead th").forEach((head, column) => {
      this.#classes.push(head.className);
      const button = el("button", { type: "button", class: "sort" }, head.textContent);
      button.addEventListener("click", () => this.#sort(column));
      head.replaceChildren(button);
    });
    if (this.#chosen.column >= 0 || this.#chosen.words) this.#show();
  }

  /* Ascending, descending, as logged. */
  #sort(column) {
    const same = this.#chosen.column === column;
    Object.assign(this.#chosen, same && this.#chosen.down ? { column: -1, down: false } : { column, down: same });
    this.#show();
  }

  async #show() {
    const note = this.#element.querySelector("[data-media-rows]");
    try {
      this.#read ??= readJson(this.#element.dataset.mediaTable);
      const { rows } = await this.#read, { column, down, words } = this.#chosen;
      const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
      let matches = rows.filter((row) => wanted.every((word) => row.some((cell) => text(cell).toLowerCase().includes(word))));
      if (column >= 0) matches = matches.toSorted((one, other) => compare(one[column], other[column]) * (down ? -1 : 1));
      this.#shown = matches.slice(0, MOST);
      this.#element.querySelector("tbody").replaceChildren(...this.#shown.map((row) => el("tr", {}, row.map((cell, place) => el("td", { class: this.#classes[place] }, text(cell))))));
      note.textContent = `${wanted.length ? `${count(matches.length)} of ` : ""}${count(rows.length)} rows${matches.length > MOST ? `, the first ${MOST} shown` : ""}`;
      this.#element.querySelectorAll("thead th").forEach((head, index) => head.setAttribute("aria-sort", index !== column ? "none" : down ? "descending" : "ascending"));
    } catch (error) {
      this.#read = null;
      note.textContent = `The rows are not loaded: ${error.message}`;
    }
  }
}

function text(cell) {
  return cell === null ? "–" : cell === true ? "true" : cell === false ? "false" : String(cell);
}

/* Numbers before text, empty cells last. */
function compare(one, other) {
  const rank = (cell) => (cell === null ? 2 : typeof cell === "number" || typeof cell === "boolean" ? 0 : 1);
  if (rank(one) !== rank(other)) return rank(one) - rank(other);
  return rank(one) === 1 ? one.localeCompare(other, undefined, { numeric: true }) : one - other;
}

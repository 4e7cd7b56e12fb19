/* Replay of boards beside a transcript. They are read from the server some at a time, those around the answer that is looked at. */

import { el } from "./dom.js";
import { drawn, legend } from "./boards/registry.js";

export class Board {
  #store; #last; #root = document.querySelector("[data-board]"); #scrub = null; #now = 0; #marks = new Map();

  /* `onMove` is called with the place that the scrubber was moved to: answers from 0, then the end. */
  constructor({ episode, count, piece, boards }, onMove) {
    if (!boards) return;
    this.#store = new BoardStore(episode, count, piece);
    this.#last = count;
    this.#root.hidden = false;
    this.#scrub = this.#root.querySelector("[data-board-scrub]");
    this.#scrub.max = count;
    this.#scrub.addEventListener("input", () => onMove(Number(this.#scrub.value)));
  }

  async show(place) {
    if (!this.#scrub) return;
    this.#now = place;
    this.#scrub.value = place;
    const note = place === this.#last ? "at the end" : `before #${place + 1} of ${this.#last}`;
    this.#root.querySelector("[data-board-note]").textContent = note;
    this.#scrub.setAttribute("aria-valuetext", note);
    const past = await this.#store.until(place);
    if (this.#now !== place) return;
    const board = past.at(-1);
    const drawing = (board && drawn(board, past, note)) ?? el("p", { class: "quiet" }, board ? `no drawing for boards of kind ${String(board.kind).slice(0, 40)}` : "no board for this moment");
    this.#root.querySelector("[data-board-drawing]").replaceChildren(drawing);
    if (board) for (const [mark, item] of legend(board)) this.#marks.set(mark, item);
    this.#root.querySelector("[data-board-legend]").replaceChildren(...this.#marks.values());
  }
}

/* Boards by place, in pieces; the one after the last answer is the final one. */
class BoardStore {
  #episode; #count; #piece; #pieces = new Map();

  constructor(episode, count, piece) {
    this.#episode = episode;
    this.#count = count;
    this.#piece = piece;
  }

  /* The boards of a place's piece up to it, the last of them its own (null: none). */
  async until(place) {
    const answer = Math.min(place, this.#count - 1);
    const first = Math.floor(answer / this.#piece) * this.#piece;
    const { boards, final_board: final } = await this.#read(first);
    return place < this.#count ? boards.slice(0, place - first + 1) : [...boards, final];
  }

  #read(first) {
    if (!this.#pieces.has(first)) {
      const address = `/api/v1/episodes/${this.#episode}/boards/?from=${first + 1}&limit=${this.#piece}`;
      const reading = fetch(address, { headers: { Accept: "application/json" } }).then((answer) => (answer.ok ? answer.json() : Promise.reject(new Error(answer.status))));
      this.#pieces.set(first, reading.catch(() => {
        this.#pieces.delete(first); // asked again when it is looked at again
        return { boards: [], final_board: null };
      }));
    }
    return this.#pieces.get(first);
  }
}

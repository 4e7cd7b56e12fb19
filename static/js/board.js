/* Replay of boards next to a transcript. They are read from the server in pieces, around the selected answer. */

import { drawn } from "./boards/registry.js";
import { readJson } from "./requests.js";

const BEAT = 700; // milliseconds per board during replay
const FILM = 10_000; // milliseconds per episode, if that is less
const QUICKEST = 80;

/* The place of a board: of small networks the step, in which every role acts; otherwise the answer. */
export function placeOf(position, last, { step, roles }) {
  if (!step) return `before #${position + 1} of ${last}`;
  return `before ${step} ${Math.floor(position / roles) + 1} of ${Math.ceil(last / roles)}`;
}

export class Board {
  #store; #last; #root = document.querySelector("[data-board]"); #scrub = null; #now = 0; #marks = new Map(); #tones; #step; #roles; #onMove; #beat = null;

  /* `onMove` is called with the new position of the slider: answers from 0, then the end. */
  constructor({ episode, count, piece, boards, tones, step, roles }, onMove) {
    if (!boards) return;
    this.#store = new BoardStore(episode, count, piece);
    this.#last = count;
    this.#tones = tones;
    this.#step = step;
    this.#roles = roles;
    this.#onMove = onMove;
    this.#root.hidden = false;
    this.#scrub = this.#root.querySelector("[data-board-scrub]");
    this.#scrub.max = count;
    this.#scrub.addEventListener("input", () => onMove(Number(this.#scrub.value)));
    this.#root.querySelector("[data-board-play]").addEventListener("click", () => (this.#beat ? this.#stop() : this.#play()));
  }

  async show(position) {
    if (!this.#scrub) return;
    this.#now = position;
    this.#scrub.value = position;
    const [past, atEnd] = await this.#store.until(position);
    if (this.#now !== position) return;
    const note = atEnd ? "at the end" : placeOf(position, this.#last, { step: this.#step, roles: this.#roles });
    this.#part("note").textContent = note;
    this.#scrub.setAttribute("aria-valuetext", note);
    const { drawing, legend } = drawn(past.at(-1), past, { note, tones: this.#tones });
    this.#part("drawing").replaceChildren(drawing);
    for (const [name, item] of legend) this.#marks.set(name, item);
    this.#part("legend").replaceChildren(...this.#marks.values());
  }

  #play() {
    if (this.#now === this.#last) this.#onMove(0);
    this.#beat = setInterval(() => (this.#now < this.#last ? this.#onMove(this.#now + 1) : this.#stop()), Math.max(QUICKEST, Math.min(BEAT, FILM / this.#last)));
    this.#part("play").textContent = "Pause";
  }

  #stop() {
    clearInterval(this.#beat);
    this.#beat = null;
    this.#part("play").textContent = "Play";
  }

  #part(name) { return this.#root.querySelector(`[data-board-${name}]`); }
}

/* Boards by position, in pieces; the one after the last answer is the final one. */
class BoardStore {
  #episode; #count; #piece; #pieces = new Map();

  constructor(episode, count, piece) {
    this.#episode = episode;
    this.#count = count;
    this.#piece = piece;
  }

  /* The boards of the position's piece up to the position, the last of them its own (null: none), and whether that is the final one.
     If the piece has none, as in an external episode, the final board is used for all. */
  async until(position) {
    const answer = Math.min(position, this.#count - 1);
    const first = Math.floor(answer / this.#piece) * this.#piece;
    const { boards, final_board: final } = await this.#read(first);
    const atEnd = position >= this.#count || (final && !boards.some(Boolean));
    return [atEnd ? [...boards, final] : boards.slice(0, position - first + 1), atEnd];
  }

  #read(first) {
    if (!this.#pieces.has(first)) {
      const address = `/api/v1/episodes/${this.#episode}/boards/?from=${first + 1}&limit=${this.#piece}`;
      this.#pieces.set(first, readJson(address).catch(() => {
        this.#pieces.delete(first); // requested again at the next view
        return { boards: [], final_board: null };
      }));
    }
    return this.#pieces.get(first);
  }
}

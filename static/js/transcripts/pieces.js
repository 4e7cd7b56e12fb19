/* A long transcript in pieces: those near the window are read from the server, those far away are removed and leave a space of the same height. */

import { el } from "../dom.js";

const KEPT = 8;
const NEAR = "1500px";
const SETTLE = 80; // pieces that are only scrolled past are not read

export class Pieces {
  #size; #pieces = []; #near = new Set(); #filled = new Set(); #reading = new Map(); #timer = null; #onFill;

  /* `root` contains one filled piece from answer `first` (from 0); `onFill` is called after a piece has been filled. */
  constructor(root, { count, piece, first }, onFill) {
    this.#size = piece;
    this.#onFill = onFill;
    const initial = root.querySelector("[data-piece]");
    const height = initial.offsetHeight / Math.max(1, initial.children.length);
    for (let index = 0; index * piece < count; index += 1) {
      this.#pieces.push(index * piece === first ? initial : this.#empty(index, Math.min(piece, count - index * piece) * height));
    }
    root.replaceChildren(...(this.#pieces.length ? this.#pieces : [initial]));
    this.#filled.add(initial);
    const observer = new IntersectionObserver((entries) => this.#moved(entries), { rootMargin: NEAR });
    for (const element of this.#pieces) observer.observe(element);
  }

  /* The element of answer `number` (from 1), read if necessary; null if it cannot be read. */
  async reach(number) {
    const piece = this.#pieces[Math.floor((number - 1) / this.#size)];
    if (piece && !this.#filled.has(piece)) await this.#fill(piece);
    return document.getElementById(`turn-${number}`);
  }

  #empty(index, height) {
    const piece = el("ol", { class: "turns", "data-piece": "", start: index * this.#size + 1 });
    piece.style.height = `${height}px`;
    return piece;
  }

  #moved(entries) {
    for (const { target, isIntersecting } of entries) this.#near[isIntersecting ? "add" : "delete"](target);
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#settle(), SETTLE);
  }

  async #settle() {
    for (const piece of this.#near) if (!this.#filled.has(piece)) await this.#fill(piece);
    this.#release();
  }

  #fill(piece) {
    if (!this.#reading.has(piece)) this.#reading.set(piece, this.#read(piece).finally(() => this.#reading.delete(piece)));
    return this.#reading.get(piece);
  }

  async #read(piece) {
    const first = this.#pieces.indexOf(piece) * this.#size;
    piece.setAttribute("aria-busy", "true");
    try {
      const answer = await fetch(`${location.pathname}?part=turns&start=${first + 1}`, { headers: { Accept: "text/html" } });
      if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
      const parsed = new DOMParser().parseFromString(`<ol>${await answer.text()}</ol>`, "text/html");
      piece.replaceChildren(...[...parsed.querySelectorAll("li.turn")].map((turn) => document.adoptNode(turn)));
      piece.style.height = "";
      this.#filled.add(piece);
      this.#onFill();
    } catch (error) {
      const again = el("button", { type: "button", class: "button small" }, "Try again");
      again.addEventListener("click", () => this.#fill(piece));
      piece.replaceChildren(el("li", { class: "notice bad" }, `Answers from #${first + 1} were not loaded: ${error.message}. `, again));
    } finally {
      piece.removeAttribute("aria-busy");
    }
  }

  #release() {
    const away = (piece) => !this.#near.has(piece) && !piece.contains(document.activeElement);
    for (const piece of [...this.#filled].filter(away)) {
      if (this.#filled.size <= KEPT) return;
      piece.style.height = `${piece.offsetHeight}px`;
      piece.replaceChildren();
      this.#filled.delete(piece);
    }
  }
}

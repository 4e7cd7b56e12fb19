/* Replay of boards. A grid is drawn from {"kind": "grid", rows, columns, cells: [[row, column, mark], …]}. */

import { el, svg } from "./dom.js";

const GAP = 0.06;

export class Board {
  #boards; #root = document.querySelector("[data-board]"); #scrub; #onMove;

  constructor(boards, onMove) {
    this.#boards = boards;
    this.#onMove = onMove;
    if (!boards.some((board) => board?.kind === "grid")) return;
    this.#root.hidden = false;
    this.#scrub = this.#root.querySelector("[data-board-scrub]");
    this.#scrub.max = boards.length - 1;
    this.#scrub.addEventListener("input", () => this.#onMove(Number(this.#scrub.value)));
    this.#legend();
  }

  show(place) {
    if (!this.#scrub) return;
    this.#scrub.value = place;
    const last = this.#boards.length - 1;
    const note = place === last ? "at the end" : `before #${place + 1} of ${last}`;
    this.#root.querySelector("[data-board-note]").textContent = note;
    this.#scrub.setAttribute("aria-valuetext", note);
    const board = this.#boards[place];
    const drawing = board?.kind === "grid" ? grid(board, this.#trail(place), note) : el("p", { class: "quiet" }, "no board for this moment");
    this.#root.querySelector("[data-board-drawing]").replaceChildren(drawing);
  }

  /* Where the agent has been so far. */
  #trail(place) {
    return this.#boards.slice(0, place + 1).map((board) => board?.cells?.find(([, , mark]) => mark === "agent")).filter(Boolean);
  }

  #legend() {
    const marks = new Set(this.#boards.flatMap((board) => (board?.cells ?? []).map(([, , mark]) => mark)));
    const items = [...marks].map((mark) => el("li", {}, svg("svg", { viewBox: "0 0 1 1", class: "board", "aria-hidden": "true" }, ...piece(0, 0, mark)), mark));
    this.#root.querySelector("[data-board-legend]").replaceChildren(...items);
  }
}

function grid(board, trail, note) {
  const cells = [];
  for (let row = 0; row < board.rows; row += 1) {
    for (let column = 0; column < board.columns; column += 1) cells.push(square(row, column, "cell"));
  }
  const pieces = board.cells.flatMap(([row, column, mark]) => piece(row, column, mark));
  const line = trail.length > 1 ? [svg("polyline", { class: "trail", points: trail.map(([row, column]) => `${column + 0.5},${row + 0.5}`).join(" ") })] : [];
  const walls = pieces.filter((each) => each.classList.contains("wall"));
  const others = pieces.filter((each) => !each.classList.contains("wall"));
  return svg("svg", { class: "board", viewBox: `0 0 ${board.columns} ${board.rows}`, role: "img", "aria-label": `${said(board)}, ${note}` }, ...cells, ...walls, ...line, ...others);
}

function said(board) {
  const found = (mark) => board.cells.find((cell) => cell[2] === mark);
  const place = (mark) => (found(mark) ? `${mark} at row ${found(mark)[0] + 1}, column ${found(mark)[1] + 1}` : "");
  return [`Grid of ${board.rows} by ${board.columns}`, place("agent"), place("goal")].filter(Boolean).join(", ");
}

function piece(row, column, mark) {
  const x = column + 0.5, y = row + 0.5;
  if (mark === "wall") return [square(row, column, "wall")];
  if (mark === "agent") return [svg("circle", { class: "agent", cx: x, cy: y, r: 0.3 })];
  if (mark === "goal") return [svg("circle", { class: "goal", cx: x, cy: y, r: 0.34 }), svg("circle", { class: "goal-core", cx: x, cy: y, r: 0.12 })];
  return [svg("circle", { class: "other", cx: x, cy: y, r: 0.34 }), svg("text", { x, y }, String(mark).slice(0, 2))];
}

function square(row, column, name) {
  return svg("rect", { class: name, x: column + GAP / 2, y: row + GAP / 2, width: 1 - GAP, height: 1 - GAP, rx: 0.08 });
}

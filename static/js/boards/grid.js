/* A grid: {"kind": "grid", rows, columns, cells: [[row, column, mark], …]}, rows and columns from 0, the first at the top left. */

import { el, svg } from "../dom.js";

const GAP = 0.06;

export const grid = {
  draw(board, past, note) {
    const ground = [];
    for (let row = 0; row < board.rows; row += 1) {
      for (let column = 0; column < board.columns; column += 1) ground.push(square(row, column, "cell"));
    }
    const pieces = board.cells.flatMap(([row, column, mark]) => piece(row, column, mark));
    const walls = pieces.filter((each) => each.classList.contains("wall"));
    const others = pieces.filter((each) => !each.classList.contains("wall"));
    return svg("svg", { class: "board", viewBox: `0 0 ${board.columns} ${board.rows}`, role: "img", "aria-label": `${said(board)}, ${note}` }, ...ground, ...walls, ...trail(past), ...others);
  },

  legend(board) {
    const marks = [...new Set(board.cells.map(([, , mark]) => mark))];
    return marks.map((mark) => [mark, el("li", {}, svg("svg", { viewBox: "0 0 1 1", class: "board", "aria-hidden": "true" }, ...piece(0, 0, mark)), mark)]);
  },
};

/* Where the agent has been so far. */
function trail(past) {
  const places = past.map((board) => board?.cells?.find(([, , mark]) => mark === "agent")).filter(Boolean);
  if (places.length < 2) return [];
  return [svg("polyline", { class: "trail", points: places.map(([row, column]) => `${column + 0.5},${row + 0.5}`).join(" ") })];
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

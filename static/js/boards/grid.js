/* Squares with things on them: mazes, Sokoban, queens, grid worlds. */

import { svg } from "../dom.js";
import { short } from "./looks.js";
import { MOST_CELLS, legendItem, list, picture, way, whole } from "./shapes.js";

const GAP = 0.06;

export const grid = {
  draw(board, past, { note, look }) {
    const rows = whole(board.rows, "rows", 1), columns = whole(board.columns, "columns", 1);
    if (rows * columns > MOST_CELLS) throw new Error(`it has more than ${MOST_CELLS} squares`);
    const ground = [];
    for (let row = 0; row < rows; row += 1) for (let column = 0; column < columns; column += 1) ground.push(square(row, column, "cell"));
    const cells = list(board.cells, "cells").map(([row, column, mark]) => [whole(row, "row", 0, rows - 1), whole(column, "column", 0, columns - 1), String(mark)]);
    const goals = new Set(cells.filter(([, , mark]) => mark === "goal").map(([row, column]) => `${row} ${column}`));
    const covered = new Set(cells.filter(([, , mark]) => mark === "box").map(([row, column]) => `${row} ${column}`));
    const layer = (...marks) => cells.filter(([, , mark]) => marks.includes(mark));
    const shapes = (some) => some.flatMap(([row, column, mark]) => piece(row, column, mark === "box" && goals.has(`${row} ${column}`) ? "placed" : mark, look));
    const others = besides(cells.filter(([, , mark]) => !["wall", "goal", "box"].includes(mark)));
    return picture(columns, rows, `${description(rows, columns, cells, goals)}, ${note}`, ...ground, ...shapes(layer("wall")), ...trail(past), ...shapes(layer("goal").filter(([row, column]) => !covered.has(`${row} ${column}`))), ...shapes(layer("box")), ...others.flatMap(([row, column, mark, spot]) => inSpot(spot, row, column, piece(row, column, mark, look, short(mark)))));
  },

  legend(board, { look }) {
    const marks = [...new Set(board.cells.map(([, , mark]) => look(String(mark))?.role ?? String(mark)))];
    return marks.map((mark) => legendItem(mark, ...piece(0, 0, mark, look)));
  },
};

/* Marks with their cell of the square, [position, cells per side]: marks on the same square are placed side by side. */
function besides(cells) {
  const there = new Map();
  for (const [row, column] of cells) there.set(`${row} ${column}`, (there.get(`${row} ${column}`) ?? 0) + 1);
  const met = new Map();
  return cells.map(([row, column, mark]) => {
    const key = `${row} ${column}`, index = met.get(key) ?? 0;
    met.set(key, index + 1);
    return [row, column, mark, [index, Math.ceil(Math.sqrt(there.get(key)))]];
  });
}

function inSpot([index, side], row, column, shapes) {
  if (side === 1) return shapes;
  const x = column + (index % side) / side, y = row + Math.floor(index / side) / side;
  return [svg("g", { transform: `translate(${x} ${y}) scale(${1 / side}) translate(${-column} ${-row})` }, ...shapes)];
}

/* The agent's path so far. */
function trail(past) {
  const places = past.map((board) => board?.cells?.find(([, , mark]) => mark === "agent")).filter(Boolean);
  return way(places.map(([row, column]) => [column + 0.5, row + 0.5]));
}

function description(rows, columns, cells, goals) {
  const cellOf = (mark) => cells.find((cell) => cell[2] === mark);
  const position = (mark) => (cellOf(mark) ? `${mark} at row ${cellOf(mark)[0] + 1}, column ${cellOf(mark)[1] + 1}` : "");
  const boxes = cells.filter(([, , mark]) => mark === "box");
  const placed = boxes.filter(([row, column]) => goals.has(`${row} ${column}`)).length;
  return [`Grid of ${rows} by ${columns}`, position("agent"), boxes.length ? `${placed} of ${boxes.length} boxes on goals` : position("goal"), queens(cells)].filter(Boolean).join(", ");
}

function queens(cells) {
  const attacked = cells.filter(([, , mark]) => mark === "attacked").length, safe = cells.filter(([, , mark]) => mark === "queen").length;
  return attacked || safe ? `${attacked} of ${attacked + safe} queens attacked` : "";
}

/* `label` is the text on the disc. */
function piece(row, column, mark, look, label = null) {
  const x = column + 0.5, y = row + 0.5;
  if (mark === "wall") return [square(row, column, "wall")];
  if (mark === "agent") return [svg("circle", { class: "agent", cx: x, cy: y, r: 0.3 })];
  if (mark === "goal") return [svg("circle", { class: "goal", cx: x, cy: y, r: 0.34 }), svg("circle", { class: "goal-core", cx: x, cy: y, r: 0.12 })];
  if (mark === "box" || mark === "placed") {
    const corner = { x: column + 0.2, y: row + 0.2, width: 0.6, height: 0.6, rx: 0.06 };
    return [svg("rect", { class: mark === "placed" ? "box placed" : "box", ...corner }), svg("path", { class: "box-lid", d: `M${column + 0.2} ${row + 0.2}l.6 .6m0-.6l-.6 .6` })];
  }
  if (mark === "queen" || mark === "attacked") return [svg("text", { class: mark === "attacked" ? "queen attacked" : "queen", x, y }, mark === "attacked" ? "♕" : "♛")];
  const known = look(mark);
  const disc = svg("circle", { class: "other", cx: x, cy: y, r: 0.34, ...known?.dress }, svg("title", {}, mark));
  return label ? [disc, svg("text", { class: known ? "on" : null, x, y }, label)] : [disc];
}

function square(row, column, name) {
  return svg("rect", { class: name, x: column + GAP / 2, y: row + GAP / 2, width: 1 - GAP, height: 1 - GAP, rx: 0.08 });
}

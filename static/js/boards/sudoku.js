/* A square of digits; changes since the previous board are marked. */

import { svg } from "../dom.js";
import { legendItem, list, picture, whole } from "./shapes.js";

const STATES = ["given", "filled", "wrong"];

export const sudoku = {
  draw(board, past, { note }) {
    const size = whole(board.size, "size", 1, 36);
    const [rows, columns] = [whole(board.box?.[0], "box", 1, size), whole(board.box?.[1], "box", 1, size)];
    const before = past.length > 1 ? past.at(-2) : null;
    const known = new Set((before?.cells ?? []).map(([row, column, digit]) => `${row} ${column} ${digit}`));
    const cells = list(board.cells, "cells").map(([row, column, digit, state]) => ({
      row: whole(row, "row", 0, size - 1), column: whole(column, "column", 0, size - 1), digit: whole(digit, "digit", 1, size),
      state: STATES.includes(state) ? state : "filled", fresh: before !== null && !known.has(`${row} ${column} ${digit}`),
    }));
    const ground = svg("rect", { class: "paper", x: 0, y: 0, width: size, height: size });
    const fresh = cells.filter((cell) => cell.fresh).map(({ row, column }) => svg("rect", { class: "fresh", x: column, y: row, width: 1, height: 1 }));
    const digits = cells.map(({ row, column, digit, state }) => svg("text", { class: `digit ${state}`, x: column + 0.5, y: row + 0.53 }, digit));
    const wrong = cells.filter((cell) => cell.state === "wrong").length;
    const label = `Sudoku of ${size} by ${size}, ${cells.length} of ${size * size} filled${wrong ? `, ${wrong} wrong` : ""}, ${note}`;
    return picture(size, size, label, ground, ...fresh, ...lines(size, 1, "thin"), ...lines(size, columns, "thick", "x"), ...lines(size, rows, "thick", "y"), ...digits);
  },

  legend(board) {
    const states = STATES.filter((state) => board.cells.some((cell) => cell[3] === state));
    return states.map((state) => legendItem(state, svg("text", { class: `digit ${state}`, x: 0.5, y: 0.53 }, "5")));
  },
};

function lines(size, step, name, direction = "xy") {
  const lines = [];
  for (let at = 0; at <= size; at += step) {
    if (direction.includes("x")) lines.push(svg("line", { class: name, x1: at, x2: at, y1: 0, y2: size }));
    if (direction.includes("y")) lines.push(svg("line", { class: name, x1: 0, x2: size, y1: at, y2: at }));
  }
  return lines;
}

/* Drawings of boards by their kind. training_core/boards.py defines the fields of each kind; a new kind is a file here and a line
   in KINDS. A drawing has
     draw(board, past, {note, look}) → element; `past` are the boards so far, the last of them the current one, null if there was none;
       `look` returns an agent's or a role's colour (looks.js); throws if it cannot be drawn
     legend(board, {look}) → [[name, element], …]. */

import { el } from "../dom.js";
import { grid } from "./grid.js";
import { lines } from "./lines.js";
import { looks } from "./looks.js";
import { piles } from "./piles.js";
import { plane } from "./plane.js";
import { sudoku } from "./sudoku.js";

const KINDS = { grid, lines, piles, plane, sudoku };

/* {drawing, legend}: a sentence replaces a drawing that fails. `tones` has the colour of every role. */
export function drawn(board, past, { note, tones }) {
  if (!board) return { drawing: notice("No board for this step."), legend: [] };
  if (!Object.hasOwn(KINDS, board.kind)) return { drawing: notice(`Boards of the kind “${String(board.kind).slice(0, 40)}” cannot be drawn.`), legend: [] };
  const same = past.map((earlier) => (earlier?.kind === board.kind ? earlier : null));
  const context = { note, look: looks(board.roles, tones) };
  try {
    return { drawing: KINDS[board.kind].draw(board, same, context), legend: KINDS[board.kind].legend(board, context) };
  } catch (error) {
    return { drawing: notice(`This board cannot be drawn: ${error.message}`), legend: [] };
  }
}

function notice(text) {
  return el("p", { class: "quiet" }, text);
}

/* Drawings of boards by their kind. A drawing is {draw(board, past, note) → element, legend(board) → [[mark, element]]}; `past` are the
   boards until now, the last of them this one. docs/transcripts.md says what a board of each kind holds. */

import { grid } from "./grid.js";

const KINDS = { grid };

/* null where nothing draws this kind. */
export function drawn(board, past, note) {
  return Object.hasOwn(KINDS, board.kind) ? KINDS[board.kind].draw(board, past, note) : null;
}

export function legend(board) {
  return Object.hasOwn(KINDS, board.kind) ? KINDS[board.kind].legend(board) : [];
}

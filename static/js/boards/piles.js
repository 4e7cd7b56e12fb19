/* Blocks in piles on a table, and next to them, smaller, the goal piles. A block in its goal position is marked. */

import { svg } from "../dom.js";
import { MOST_CELLS, legendItem, list, picture } from "./shapes.js";

const GAP = 0.6; // between current and goal piles
const SMALL = 0.6; // size of the goal piles

export const piles = {
  draw(board, past, { note }) {
    const now = named(board.piles, "piles"), wanted = named(board.goal, "goal"), placed = new Set(list(board.placed, "placed").map(String));
    const count = now.flat().length;
    if (count > MOST_CELLS || !count) throw new Error("it has no blocks, or too many");
    const columns = Math.max(count, 3), width = columns + GAP + columns * SMALL;
    const left = columns + GAP, high = count;
    const blocks = stacked(now, (name) => (placed.has(name) ? "block placed" : "block"));
    const table = (from, to) => svg("line", { class: "table", x1: from, x2: to, y1: 0.04, y2: 0.04 });
    const label = `${words(now)}; goal: ${words(wanted)}; ${placed.size} of ${count} blocks in place, ${note}`;
    return picture(width, high + 0.2, label,
      svg("g", { transform: `translate(0 ${high})` }, table(0, columns), ...blocks),
      svg("g", { transform: `translate(${left} ${high}) scale(${SMALL})` }, table(0, columns), ...stacked(wanted, () => "block wanted")));
  },

  legend(board) {
    const count = board.piles.flat().length, placed = board.placed.length;
    const items = [["block", "block", count > placed], ["placed", "block placed", placed], ["goal", "block wanted", true]];
    return items.filter(([, , shown]) => shown).map(([name, kind]) => legendItem(name, svg("rect", { class: kind, x: 0.08, y: 0.08, width: 0.84, height: 0.84, rx: 0.1 })));
  },
};

function named(value, name) {
  return list(value, name).map((pile) => list(pile, name).map(String));
}

/* Squares upwards from y = 0. */
function stacked(some, kind) {
  return some.flatMap((pile, column) => pile.flatMap((name, level) => [
    svg("rect", { class: kind(name), x: column + 0.06, y: -level - 0.94, width: 0.88, height: 0.88, rx: 0.1 }),
    svg("text", { class: kind(name), x: column + 0.5, y: -level - 0.48 }, name.slice(0, 3)),
  ]));
}

function words(some) {
  return some.map((pile) => pile.join(" under ")).join(", ");
}

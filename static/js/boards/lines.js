/* Prompts, results and answers, line by line; right and wrong are marked by a symbol as well as by colour. */

import { el } from "../dom.js";
import { list } from "./shapes.js";

const SIGNS = { good: "✓ ", bad: "✗ " };

export const lines = {
  draw(board, past, { note }) {
    const shown = list(board.lines, "lines");
    const rows = shown.map(({ label, text, state }) => {
      const known = Object.hasOwn(SIGNS, state);
      return el("li", { class: known ? state : "" }, el("span", { class: "quiet" }, String(label)), el("code", {}, (known ? SIGNS[state] : "") + String(text)));
    });
    return el("ul", { class: "board-lines", "aria-label": `${shown.length} ${shown.length === 1 ? "line" : "lines"}, ${note}` }, ...rows);
  },

  legend() {
    return [];
  },
};

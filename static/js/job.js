/* The board of a short job's episode, next to its turns. The region is replaced while the job runs, so everything is read
   from the document each time. */

import { placeOf } from "./board.js";
import { drawn } from "./boards/registry.js";
import { data } from "./dom.js";

function show(index) {
  const root = document.querySelector("[data-board]");
  const boards = data("job-boards");
  if (!root || !boards) return;
  const last = boards.length - 1, here = Math.max(0, Math.min(last, index));
  const note = here < last ? placeOf(here, last, root.dataset) : root.dataset.board;
  const scrub = root.querySelector("[data-board-scrub]");
  scrub.max = last;
  scrub.value = here;
  scrub.setAttribute("aria-valuetext", note);
  root.querySelector("[data-board-note]").textContent = note;
  const past = boards.slice(0, here + 1);
  const { drawing, legend } = drawn(past.at(-1), past, { note, tones: data("job-tones") ?? {} });
  root.querySelector("[data-board-drawing]").replaceChildren(drawing);
  root.querySelector("[data-board-legend]").replaceChildren(...legend.map(([, item]) => item));
  document.querySelectorAll("#job .turn").forEach((turn, index) => turn.classList.toggle("here", index === here && here < last));
}

function fromAddress() {
  const turn = Number(location.hash.match(/^#turn-(\d+)$/)?.[1] ?? 0);
  show(turn ? turn - 1 : Infinity);
}

/* The conversation has advanced: shows the current board. */
function newest() {
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
  show(Infinity);
}

document.addEventListener("input", ({ target }) => target.matches("[data-board-scrub]") && show(Number(target.value)));
document.addEventListener("htmx:afterSettle", newest);
addEventListener("hashchange", fromAddress);
fromAddress();

/* One episode: moving between turns, the board beside them, the tokens of an answer. */

import { Board } from "./board.js";
import { data } from "./dom.js";
import { TokenView } from "./tokens.js";

const { replay } = data("run-page");
const turns = [...document.querySelectorAll(".turn")];
const board = new Board(replay.boards, (place) => show(place, { scroll: true }));
const tokens = new TokenView(replay.turns);
let here = -1;

/* `place` counts turns from 0; the place after the last turn is the end of the episode. */
function show(place, { scroll = false, focus = false, candidate = null } = {}) {
  here = Math.max(0, Math.min(replay.boards.length - 1, place));
  turns.forEach((turn, index) => turn.classList.toggle("here", index === here));
  board.show(here);
  const target = turns[here] ?? document.getElementById("ending");
  if (scroll) target?.scrollIntoView({ block: "nearest" });
  if (!turns[here]) return;
  if (focus) turns[here].focus({ preventScroll: true });
  const chosen = candidate ?? replay.turns[here].executed;
  tokens.show(here, chosen);
  for (const button of document.querySelectorAll("[data-candidate]")) {
    const pressed = button.closest(".turn") === turns[here] && Number(button.dataset.candidate) === chosen;
    button.setAttribute("aria-pressed", String(pressed));
  }
}

function go(place) {
  show(place, { scroll: true, focus: true });
  if (turns[here]) history.replaceState(null, "", `#${turns[here].id}`);
}

function fromAddress() {
  const wanted = turns.findIndex((turn) => `#${turn.id}` === location.hash);
  show(Math.max(0, wanted), { scroll: wanted >= 0, focus: wanted >= 0 });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input:not([type=range]), textarea, select")) return;
  if (event.key === "j") go(here + 1);
  if (event.key === "k") go(here - 1);
});

for (const turn of turns) {
  turn.addEventListener("click", (event) => {
    const button = event.target.closest("[data-candidate]");
    show(Number(turn.dataset.turn), { candidate: button ? Number(button.dataset.candidate) : null });
  });
  turn.addEventListener("focusin", () => Number(turn.dataset.turn) !== here && show(Number(turn.dataset.turn)));
}

addEventListener("hashchange", fromAddress);
if (turns.length) fromAddress();

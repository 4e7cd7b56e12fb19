/* One episode: navigation between answers, the board next to them, the tokens of an answer. */

import { Board } from "./board.js";
import { data } from "./dom.js";
import { Pieces } from "./transcripts/pieces.js";
import { TokenPanel } from "./transcripts/token-panel.js";

const { transcript } = data("run-page");
const root = document.querySelector("[data-pieces]");
const count = transcript.count;
let here = -1, chosen = null;

const pieces = root && new Pieces(root, transcript, mark);
const wide = matchMedia("(min-width: 1001px)"); // as in transcript.css: otherwise the board is above and would be scrolled out of view
const board = new Board(transcript, (position) => show(position, { scroll: wide.matches }));
const panel = document.querySelector("[data-tokens]"); // small networks have none
const tokens = panel && new TokenPanel(panel, transcript.episode);
document.querySelector("[data-turn-pages]")?.remove();

function mark() {
  for (const turn of root.querySelectorAll(".turn")) {
    const current = Number(turn.dataset.turn) === here + 1;
    turn.classList.toggle("here", current);
    for (const button of turn.querySelectorAll("[data-candidate]")) {
      button.setAttribute("aria-pressed", String(current && Number(button.dataset.candidate) === candidateOf(turn)));
    }
  }
}

function candidateOf(turn) {
  return chosen ?? Number(turn.dataset.executed);
}

/* `position` counts answers from 0; the position after the last is the end of the episode. */
async function show(position, { scroll = false, focus = false, candidate = null } = {}) {
  here = Math.max(0, Math.min(count, position));
  chosen = candidate;
  const shown = here;
  mark();
  board.show(here);
  if (here === count) return void (scroll && document.getElementById("ending")?.scrollIntoView({ block: "nearest" }));
  const turn = await pieces.reach(here + 1);
  if (!turn || here !== shown) return;
  mark();
  if (scroll) turn.scrollIntoView({ block: "nearest" });
  if (focus) turn.focus({ preventScroll: true });
  if (turn.querySelector(".said")) tokens?.show(here + 1, candidateOf(turn), candidateOf(turn) === Number(turn.dataset.executed));
}

function address({ hash, candidate }) {
  const now = new URL(location.href);
  now.hash = hash;
  now.searchParams.delete("start");
  if (candidate === null) now.searchParams.delete("candidate");
  else now.searchParams.set("candidate", candidate + 1);
  history.replaceState(null, "", now);
}

function go(position) {
  show(position, { scroll: true, focus: true });
  if (here < count) address({ hash: `turn-${here + 1}`, candidate: null });
}

function fromAddress() {
  const wanted = Number(location.hash.match(/^#turn-(\d+)$/)?.[1] ?? 0);
  const candidate = Number(new URLSearchParams(location.search).get("candidate") ?? 0);
  const position = wanted >= 1 && wanted <= count ? wanted - 1 : transcript.first;
  show(position, { scroll: wanted > 0, focus: wanted > 0, candidate: wanted && candidate ? candidate - 1 : null });
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input:not([type=range]), textarea, select")) return;
  if (event.key === "j") go(here + 1);
  if (event.key === "k") go(here - 1);
});

root?.addEventListener("click", ({ target }) => {
  const turn = target.closest(".turn");
  if (!turn || target.closest("a")) return;
  const button = target.closest("[data-candidate]");
  const candidate = button ? Number(button.dataset.candidate) : null;
  show(Number(turn.dataset.turn) - 1, { candidate });
  if (button) address({ hash: turn.id, candidate });
});
root?.addEventListener("focusin", ({ target }) => {
  const turn = target.closest(".turn");
  if (turn && Number(turn.dataset.turn) !== here + 1) show(Number(turn.dataset.turn) - 1);
});

addEventListener("hashchange", fromAddress);
if (count) fromAddress();

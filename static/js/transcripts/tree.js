/* Keys of the tree: down and up (j, k) change the turn, right and left (l, h) the candidate, Enter opens the transcript. */

import { CardTokens, remember } from "./card-tokens.js";

const STEPS = {
  ArrowDown: [1, 0], j: [1, 0], ArrowUp: [-1, 0], k: [-1, 0],
  ArrowRight: [0, 1], l: [0, 1], ArrowLeft: [0, -1], h: [0, -1],
};

function move(down, right) {
  const here = document.querySelector(".tree .node[aria-current]");
  if (!here) return;
  const level = here.closest(".level");
  const next = down > 0 ? level.nextElementSibling : down < 0 ? level.previousElementSibling : level;
  if (!next) return void document.querySelector(down > 0 ? "[data-tree-after]" : "[data-tree-before]")?.click();
  const nodes = [...next.querySelectorAll(".node")];
  const index = down ? nodes.findIndex((node) => node.classList.contains("executed")) : nodes.indexOf(here) + right;
  const target = nodes[down ? Math.max(0, index) : index];
  if (!target) return;
  target.focus();
  target.click();
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.target.matches("input, textarea, select, .words, .scroll-x") || !(event.key in STEPS)) return;
  event.preventDefault();
  move(...STEPS[event.key]);
});

let cards = null;

function drawCards() {
  cards?.close();
  const group = document.querySelector("[data-group]");
  cards = group && new CardTokens(group);
  remember();
}

function reveal() {
  document.querySelector(".tree .node[aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
}

document.addEventListener("htmx:afterSettle", () => {
  reveal();
  drawCards();
});
reveal();
drawCards();

/* Tiles that follow the last point of their series. */

import { number, signed } from "../format.js";

export function tiles(store) {
  store.addEventListener("change", ({ detail }) => {
    for (const figure of document.querySelectorAll("[data-figure]")) if (detail.has(figure.dataset.figure)) show(figure, store);
  });
}

function show(figure, store) {
  const ends = store.ends(figure.dataset.figure);
  if (!ends) return;
  figure.querySelector(".value").textContent = number(ends.last);
  const change = figure.querySelector("[data-change]");
  const { moved } = ends;
  if (!change || moved === null) return;
  change.textContent = `${signed(moved)} since ${change.dataset.change}`;
  change.classList.toggle("good", moved > 0 && "up" in change.dataset);
  change.classList.toggle("bad", moved < 0 && "up" in change.dataset);
}

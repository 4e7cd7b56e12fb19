/* Checkpoints: rows of a table. */

import { el } from "../dom.js";
import { bytes, count, figure } from "../format.js";
import { timeElement } from "../times.js";
import { readAgain } from "./regions.js";

export class Checkpoints {
  delta(message) {
    if (document.querySelector("[data-checkpoint-acts]")) return void (message.checkpoints.length && readAgain());
    const table = document.querySelector("[data-checkpoints]");
    if (!table) return;
    for (const row of message.checkpoints) placeRow(table, row);
    for (const mark of document.querySelectorAll("[data-checkpoint-count]")) {
      mark.textContent = count(table.tBodies[0].querySelectorAll("tr:not(.gone)").length);
    }
  }
}

function placeRow(table, row) {
  table.hidden = false;
  document.querySelector("[data-no-checkpoints]")?.remove();
  if (row.best) table.querySelectorAll("[data-best]").forEach((badge) => badge.remove());
  const old = [...table.tBodies[0].rows].find((candidate) => candidate.dataset.path === row.path);
  const fresh = drawn(row, table.dataset.metric);
  if (old) old.replaceWith(fresh);
  else table.tBodies[0].prepend(fresh);
}

function drawn(row, metric) {
  return el("tr", { class: `row${row.removed ? " gone" : ""}`, "data-path": row.path },
    el("td", { class: "num", "data-label": "iteration" }, row.best ? el("span", { class: "badge good", "data-best": "" }, "best") : null, ` ${count(row.iteration)}`),
    el("td", { class: "mono break lead folder" }, row.path),
    el("td", { class: "num", "data-label": metric }, figure(row.metrics[metric], metric)),
    el("td", { class: "num", "data-label": "size" }, bytes(row.size)),
    el("td", { class: "num folder", "data-label": "attempt" }, count(row.attempt)),
    el("td", { class: "num soft plain", "data-label": "written" }, row.removed ? "removed to save space" : row.damaged ? el("span", { class: "badge bad", title: row.damaged }, "damaged") : timeElement(row.time)));
}

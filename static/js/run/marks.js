/* Marks on the curves: checkpoints, attempts, edits of the config, findings, notes. ?hide=kind,kind hides kinds. */

import { addressGet, addressSet } from "../address.js";
import { count } from "../format.js";

export class Marks {
  #all; #boxes = [...document.querySelectorAll("[data-mark-kind]")];

  constructor(all) {
    this.#all = all;
    for (const box of this.#boxes) {
      box.checked = !hidden().includes(box.dataset.markKind);
      box.addEventListener("change", () => this.#choose());
    }
    this.#count();
  }

  get list() {
    const away = hidden();
    return this.#all.filter((mark) => !away.includes(mark.kind));
  }

  delta({ checkpoints }) {
    if (checkpoints.length) this.#change(checkpoints.reduce(withCheckpoint, this.#all));
  }

  again(page) {
    if (page?.marks) this.#change(page.marks);
  }

  #choose() {
    addressSet({ hide: this.#boxes.filter((box) => !box.checked).map((box) => box.dataset.markKind).join(",") });
    this.#change(this.#all);
  }

  #change(all) {
    this.#all = all;
    this.#count();
    document.dispatchEvent(new CustomEvent("markschange"));
  }

  #count() {
    for (const label of document.querySelectorAll("[data-mark-count]")) {
      label.textContent = count(this.#all.filter((mark) => mark.kind === label.dataset.markCount).length);
    }
  }
}

function hidden() {
  return addressGet("hide", "").split(",").filter(Boolean);
}

function withCheckpoint(all, row) {
  const others = all.filter((mark) => mark.kind !== "checkpoint" || mark.number !== row.id);
  if (row.removed) return others;
  const known = row.best ? others.map((mark) => (mark.kind === "checkpoint" ? { ...mark, strong: false, title: "checkpoint" } : mark)) : others;
  return [...known, {
    kind: "checkpoint", step: row.iteration, time: new Date(row.time).getTime() / 1000, number: row.id,
    title: row.best ? "best checkpoint" : "checkpoint", detail: "", link: "", strong: row.best,
  }];
}

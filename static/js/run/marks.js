/* Marks on the curves: checkpoints, attempts, edits of the config, findings, notes. ?hide=kind,kind hides kinds. */

import { addressGet, addressSet } from "../address.js";
import { count } from "../format.js";

export function marks(first) {
  let all = first;
  const hidden = () => addressGet("hide", "").split(",").filter(Boolean);
  const changed = () => document.dispatchEvent(new CustomEvent("markschange"));
  menu(hidden, changed, () => all);
  return {
    get list() {
      const away = hidden();
      return all.filter((mark) => !away.includes(mark.kind));
    },
    delta({ checkpoints }) {
      if (!checkpoints.length) return;
      for (const row of checkpoints) all = withCheckpoint(all, row);
      changed();
    },
    again(page) {
      if (!page?.marks) return;
      all = page.marks;
      changed();
    },
  };
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

function menu(hidden, changed, all) {
  const boxes = [...document.querySelectorAll("[data-mark-kind]")];
  const counts = () => {
    for (const label of document.querySelectorAll("[data-mark-count]")) {
      label.textContent = count(all().filter((mark) => mark.kind === label.dataset.markCount).length);
    }
  };
  for (const box of boxes) {
    box.checked = !hidden().includes(box.dataset.markKind);
    box.addEventListener("change", () => {
      addressSet({ hide: boxes.filter((each) => !each.checked).map((each) => each.dataset.markKind).join(",") });
      changed();
    });
  }
  document.addEventListener("markschange", counts);
  counts();
}

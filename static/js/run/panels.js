/* Panels that a person has built, above the curves of a run, and the dialog that saves them as a view. */

const SETTINGS = ["panels", "x", "smooth", "logx", "logy", "lead"];

export class Panels {
  #board;

  constructor(board) {
    this.#board = board;
    const dialog = document.getElementById("panel-view");
    document.querySelector("[data-view-save-open]").addEventListener("click", () => {
      dialog.querySelector("[name=query]").value = settings();
      dialog.querySelector("[name=next]").value = location.pathname + location.search;
      dialog.showModal();
    });
    dialog.querySelector("[data-view-save-close]").addEventListener("click", () => dialog.close());
  }

  delta({ points }) {
    if (Object.keys(points).length) this.#board.arrived();
  }

  again() {
    this.#board.redraw();
  }
}

/* The query of the view: the charts as they are now. */
function settings() {
  const now = new URLSearchParams(location.search), query = new URLSearchParams({ charts: "1" });
  for (const name of SETTINGS) if (now.has(name)) query.set(name, now.get(name));
  return query;
}

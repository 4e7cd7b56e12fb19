/* The dialog to label or note an answer: n opens it for the current one. */

const dialog = document.getElementById("note");

function open(turn) {
  dialog.querySelector("[name=turn]").value = turn;
  dialog.querySelector("[data-note-of]").textContent = turn ? `answer #${turn}` : "the episode";
  dialog.showModal();
  dialog.querySelector("[name=label]").focus();
}

if (dialog) {
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-note]");
    if (button) open(button.dataset.note);
    if (target.closest("[data-note-close]")) dialog.close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "n" || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.matches("input:not([type=range]), textarea, select")) return;
    event.preventDefault();
    open(document.querySelector(".turn.here [data-note]")?.dataset.note ?? "");
  });
}

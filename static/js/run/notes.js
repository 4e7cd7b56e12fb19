/* The dialog that adds a note to a run: n opens it at the current step. */

export function notes(run, step) {
  const dialog = document.getElementById("run-note");
  if (!dialog) return;
  const open = () => {
    dialog.querySelector("[name=step]").value = step() ?? (run.summary.iteration || "");
    dialog.querySelector("[name=next]").value = location.pathname + location.search;
    dialog.showModal();
    dialog.querySelector("[name=text]").focus();
  };
  document.addEventListener("click", ({ target }) => {
    if (target.closest("[data-note-open]")) open();
    if (target.closest("[data-note-close]")) dialog.close();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== "n" || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.matches("input:not([type=range]), textarea, select")) return;
    event.preventDefault();
    open();
  });
}

/* The dialog that adds a note to a run of the table, or changes its latest note. */

export function rowNote(dialog) {
  const form = dialog.querySelector("form"), latest = dialog.querySelector("[data-note-latest]");
  const text = form.querySelector("[name=text]");
  let run = "", number = "";

  dialog.querySelector("[data-note-change]").addEventListener("click", () => {
    form.action = form.dataset.change.replace("RUN", run).replace("/0/", `/${number}/`);
    text.value = latest.querySelector("span").textContent;
    latest.hidden = true;
    text.focus();
  });
  dialog.querySelector("[data-note-close]").addEventListener("click", () => dialog.close());

  return (row) => {
    const button = row?.querySelector("[data-note]");
    if (!button) return;
    run = button.dataset.note;
    number = button.dataset.noteId ?? "";
    form.action = form.dataset.action.replace("RUN", run);
    text.value = "";
    latest.hidden = !number;
    latest.querySelector("span").textContent = row.querySelector(".row-note")?.title ?? "";
    dialog.querySelector("[data-note-run]").textContent = row.querySelector(".row-link").textContent;
    dialog.showModal();
    text.focus();
  };
}

/* The dialog that adds a note to a run of the table, or changes its latest note. */

export class RowNote {
  #dialog; #form; #latest; #text; #run = ""; #number = "";

  constructor(dialog) {
    this.#dialog = dialog;
    this.#form = dialog.querySelector("form");
    this.#latest = dialog.querySelector("[data-note-latest]");
    this.#text = this.#form.querySelector("[name=text]");
    dialog.querySelector("[data-note-change]").addEventListener("click", () => this.#change());
    dialog.querySelector("[data-note-close]").addEventListener("click", () => dialog.close());
  }

  open(row) {
    const button = row?.querySelector("[data-note]");
    if (!button) return;
    this.#run = button.dataset.note;
    this.#number = button.dataset.noteId ?? "";
    this.#form.action = this.#form.dataset.action.replace("RUN", this.#run);
    this.#text.value = "";
    this.#latest.hidden = !this.#number;
    this.#latest.querySelector("span").textContent = row.querySelector(".row-note")?.title ?? "";
    this.#dialog.querySelector("[data-note-run]").textContent = row.querySelector(".row-link").textContent;
    this.#dialog.showModal();
    this.#text.focus();
  }

  #change() {
    this.#form.action = this.#form.dataset.change.replace("RUN", this.#run).replace("/0/", `/${this.#number}/`);
    this.#text.value = this.#latest.querySelector("span").textContent;
    this.#latest.hidden = true;
    this.#text.focus();
  }
}

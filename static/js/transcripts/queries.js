/* Query fields with completion, the dialog of saved queries, and the choice of columns of the table. */

import { Completion } from "../filter.js";

for (const input of document.querySelectorAll("[data-query][data-source]")) new Completion(input);

const dialog = document.getElementById("queries");
document.querySelector("[data-queries-open]")?.addEventListener("click", () => dialog.showModal());
dialog?.querySelector("[data-queries-close]").addEventListener("click", () => dialog.close());

/* The field `columns` in the address has the order; the boxes add and remove. */
const columns = document.querySelector("[data-columns]"), boxes = [...document.querySelectorAll("[data-column]")];
const words = () => columns.value.split(",").map((word) => word.trim()).filter(Boolean);

function check() {
  const chosen = words();
  for (const box of boxes) box.checked = chosen.includes(box.value);
}

if (columns) {
  check();
  columns.addEventListener("input", check);
  for (const box of boxes) {
    box.addEventListener("change", () => {
      const others = words().filter((word) => word !== box.value);
      columns.value = (box.checked ? [...others, box.value] : others).join(",");
    });
  }
  columns.form.addEventListener("formdata", ({ formData }) => {
    if (columns.value === columns.dataset.standard) formData.delete("columns");
    if (!formData.get("query")) formData.delete("query");
  });
}

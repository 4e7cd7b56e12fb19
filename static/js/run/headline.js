/* The dialog that chooses the headline metrics of a run: a name that is picked becomes a line of the text. */

export function headline() {
  const dialog = document.getElementById("headline");
  if (!dialog) return;
  const text = dialog.querySelector("[name=headline]"), pick = dialog.querySelector("[data-headline-add]");
  const add = () => {
    const lines = text.value.split("\n").map((line) => line.trim()).filter(Boolean);
    if (pick.value && !lines.includes(pick.value)) text.value = [...lines, pick.value].join("\n");
    pick.value = "";
  };
  document.querySelector("[data-headline-open]").addEventListener("click", () => {
    dialog.showModal();
    pick.focus();
  });
  dialog.querySelector("[data-headline-close]").addEventListener("click", () => dialog.close());
  pick.addEventListener("change", add);
  pick.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !pick.value) return;
    event.preventDefault();
    add();
  });
}

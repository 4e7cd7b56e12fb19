/* The dialog that puts another answer in the place of a message; it begins with the message. */

const dialog = document.getElementById("what-if");

function open(button) {
  const words = [...button.closest(".turn").querySelectorAll(".words .words")].at(-1);
  dialog.querySelector("[name=turn]").value = button.dataset.whatIf;
  dialog.querySelector("[name=text]").value = words?.textContent.trim() ?? "";
  dialog.querySelector("[data-what-if-of]").textContent = `answer #${button.dataset.whatIf}`;
  dialog.showModal();
  dialog.querySelector("[name=text]").focus();
}

if (dialog) {
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-what-if]");
    if (button) open(button);
    if (target.closest("[data-what-if-close]")) dialog.close();
  });
}

/* Runs before the first paint and before the other scripts: the theme, confirmations, and forms that a choice submits. */
(() => {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;

  document.addEventListener("submit", (event) => {
    const question = event.submitter?.dataset.confirm ?? event.target.dataset.confirm;
    if (question && !confirm(question)) event.preventDefault();
  });

  document.addEventListener("change", ({ target }) => {
    const submits = target.matches("select") ? target.form?.matches("[data-auto-submit]") : target.matches("[data-submits]");
    if (submits) target.form.requestSubmit();
  });
})();

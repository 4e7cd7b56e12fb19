/* The form of an experiment: after each check, errors and changed marks go to their fields. */

import { edited } from "./dom.js";

const form = document.getElementById("experiment");

function mark() {
  const marks = JSON.parse(document.getElementById("form-marks").textContent);
  for (const field of form.querySelectorAll("[data-field]")) show(field, marks);
  for (const section of form.querySelectorAll("[data-section]")) {
    const changed = section.querySelectorAll(".config-field.changed").length;
    const badge = section.querySelector("[data-changed]");
    badge.hidden = !changed;
    badge.textContent = `${changed} changed`;
  }
}

function show(field, { errors, changed }) {
  const path = field.dataset.field;
  const error = field.querySelector("[data-error]");
  const input = field.querySelector("input:not([type=hidden]), select, textarea");
  error.hidden = !(path in errors);
  error.textContent = errors[path] ?? "";
  if (path in errors) input.setAttribute("aria-invalid", "true");
  else input.removeAttribute("aria-invalid");
  field.classList.toggle("changed", path in changed);
  if (path in changed) field.querySelector("[data-preset]").textContent = changed[path];
}

/* A link to a field in a closed section opens the section. */
function reveal() {
  const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
  if (!target || !form.contains(target)) return;
  target.closest("details")?.setAttribute("open", "");
  target.focus();
}

/* While an action redraws the fields, the old ones are read-only; the cursor keeps its position. */
let focused = "", renamed = "";
document.body.addEventListener("htmx:beforeRequest", (event) => {
  if (event.detail.target?.id !== "fields") return;
  focused = document.activeElement?.id ?? "";
  renamed = document.activeElement?.closest("[data-rename]")?.querySelector("input").value.trim() ?? "";
  event.detail.target.inert = true;
});
document.body.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.target?.id !== "fields") return;
  event.detail.target.inert = false;
  if (focused) (document.getElementById(focused) ?? document.getElementById(`rename-${renamed}`))?.focus();
  focused = "";
});
document.body.addEventListener("htmx:afterSwap", (event) => event.target.id === "preview" && mark());
form.addEventListener("submit", (event) => {
  if (!event.submitter?.matches("[data-launch]")) return;
  for (const button of form.querySelectorAll("[data-launch]")) {
    button.textContent = "Launching …";
    button.setAttribute("aria-disabled", "true");
  }
});
/* Values that htmx did not see are checked when it listens. */
function checkEdited() {
  for (const control of form.querySelectorAll("input, select, textarea")) if (edited(control)) control.dispatchEvent(new Event("change", { bubbles: true }));
}
if (document.readyState === "complete") checkEdited();
else addEventListener("load", checkEdited);
/* Enter in the name of a role or a policy presses the button next to it instead of launching the run. */
form.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !event.target.matches("[data-enter]")) return;
  event.preventDefault();
  event.target.parentElement.querySelector("button").click();
});
addEventListener("hashchange", reveal);
document.getElementById("preview").addEventListener("click", (event) => event.target.closest("a") && setTimeout(reveal));

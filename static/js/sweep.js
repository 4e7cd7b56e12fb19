/* The form of a sweep: rows of fields are added and removed; another preset has other fields. */

const form = document.getElementById("sweep");
const axes = form.querySelector("[data-axes]");

function number() {
  [...axes.children].forEach((row, index) => {
    const [field, values] = row.querySelectorAll("input");
    field.setAttribute("aria-label", `Field ${index + 1}`);
    values.setAttribute("aria-label", `Values of field ${index + 1}`);
    row.querySelector("[data-remove]").setAttribute("aria-label", `Remove field ${index + 1}`);
  });
}

function add() {
  const row = axes.lastElementChild.cloneNode(true);
  for (const input of row.querySelectorAll("input")) input.value = "";
  axes.append(row);
  number();
  row.querySelector("input").focus();
}

function remove(row) {
  if (axes.children.length > 1) row.remove();
  else for (const input of row.querySelectorAll("input")) input.value = "";
  number();
  form.dispatchEvent(new Event("sweep:rows"));
  axes.querySelector("input").focus();
}

form.addEventListener("click", (event) => {
  if (event.target.closest("[data-add]")) add();
  const button = event.target.closest("[data-remove]");
  if (button) remove(button.closest(".axis"));
});
form.addEventListener("change", (event) => {
  if (!event.target.matches("[data-preset-choice]")) return;
  const address = new URL(location.pathname, location.href);
  address.searchParams.set("preset", event.target.value);
  location.assign(address);
});

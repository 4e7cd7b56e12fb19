/* The form's field search: shows only the fields whose name, path or help has all words, and opens their sections. */

import { write } from "./announce.js";

const bar = document.querySelector("[data-field-search]"), search = bar.querySelector("input"), fields = document.getElementById("fields");
/* The sections that were open before the search. */
let opened = null;

function find() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  const sections = [...fields.querySelectorAll("details")];
  if (words.length) opened ??= new Set(sections.filter((section) => section.open).map(key));
  let count = 0;
  for (const field of fields.querySelectorAll("[data-field]")) {
    const text = `${field.dataset.field} ${field.dataset.field.replaceAll(/[._]/g, " ")} ${field.textContent}`.toLowerCase();
    field.hidden = !words.every((word) => text.includes(word));
    count += !field.hidden;
  }
  for (const part of fields.querySelectorAll(".panel, .config-below")) part.hidden = words.length > 0 && !part.querySelector("[data-field]:not([hidden])");
  for (const section of sections) {
    if (words.length) section.open = Boolean(section.querySelector("[data-field]:not([hidden])"));
    else if (opened) section.open = opened.has(key(section));
  }
  if (!words.length) opened = null;
  write(bar.querySelector("output"), words.length ? `${count} found` : "");
}

const key = (section) => section.dataset.section ?? section.querySelector("summary").textContent;

search.addEventListener("input", (event) => {
  event.stopPropagation(); // not a field of the config: no new check
  find();
});
search.addEventListener("change", (event) => event.stopPropagation());
search.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault(); // Enter would launch the run
  fields.querySelector("[data-field]:not([hidden]) :is(input:not([type=hidden]), select, textarea)")?.focus();
});
document.body.addEventListener("htmx:afterSwap", (event) => event.target.id === "fields" && find());
if (search.value) find();

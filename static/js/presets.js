/* The preset gallery: words filter the presets and are stored in the address. Enter selects the first one. */

import { write } from "./announce.js";
import { addressSet } from "./address.js";
import { edited } from "./dom.js";

const bar = document.querySelector("[data-presets]"), search = bar.querySelector("input");
const region = bar.parentElement, tasks = [...region.querySelectorAll("[data-task]")];
/* Without words, each task keeps the state that the user set. */
let opened = search.value.trim() ? tasks.map((task) => Boolean(task.querySelector("[aria-current]"))) : null;

const shown = (list) => list.querySelectorAll("li[data-text]:not([hidden])");

function find() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const item of region.querySelectorAll("li[data-text]")) item.hidden = !words.every((word) => item.dataset.text.toLowerCase().includes(word));
  if (words.length) opened ??= tasks.map((task) => task.open);
  tasks.forEach((task, index) => {
    const count = shown(task).length;
    task.hidden = !count;
    task.querySelector("[data-count]").textContent = count;
    task.open = words.length > 0 || (opened ? opened[index] : task.open);
  });
  if (!words.length) opened = null;
  for (const group of region.querySelectorAll("[data-group]")) group.hidden = !shown(group).length;
  const count = shown(region).length;
  write(bar.querySelector("[data-found]"), `${count} found`);
  region.querySelector("[data-none]").hidden = count > 0;
  carry();
}

/* The words are added to the address and to the links to presets. */
function carry() {
  const words = search.value.trim();
  addressSet({ find: words });
  for (const link of region.querySelectorAll("li[data-text] a")) {
    const query = new URLSearchParams(link.search);
    if (words) query.set("find", words);
    else query.delete("find");
    link.search = query;
  }
}

search.addEventListener("input", (event) => {
  event.stopPropagation(); // not a field of the config: no new check
  find();
});
search.addEventListener("change", (event) => event.stopPropagation());
search.addEventListener("keydown", (event) => {
  if (event.key !== "Enter") return;
  event.preventDefault(); // Enter would launch the run
  shown(region)[0]?.querySelector("a").click();
});
if (edited(search)) find();

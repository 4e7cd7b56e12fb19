/* Pages of comparisons: their form, and what is drawn on them. */

import { groupCharts } from "./compare/group-chart.js";
import { parallel } from "./compare/parallel.js";
import { completing } from "./filter.js";

for (const input of document.querySelectorAll("[data-filter]")) completing(input);

for (const input of document.querySelectorAll("[data-submits]")) {
  input.addEventListener("change", () => input.form.requestSubmit());
  if (input.type === "range") input.addEventListener("input", () => (input.nextElementSibling.textContent = Number(input.value).toFixed(2)));
}

groupCharts(document);
parallel();

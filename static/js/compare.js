/* Comparison pages: their form and their charts. */

import { putRegions, whileLive } from "./compare/again.js";
import { groupCharts } from "./compare/group-chart.js";
import { parallel } from "./compare/parallel.js";
import { saveCharts } from "./compare/save.js";
import { Completion } from "./filter.js";

for (const input of document.querySelectorAll("[data-filter]")) new Completion(input);

for (const input of document.querySelectorAll("[data-submits]")) {
  input.addEventListener("change", () => input.form.requestSubmit());
  if (input.type === "range") input.addEventListener("input", () => (input.nextElementSibling.textContent = Number(input.value).toFixed(2)));
}

const charts = groupCharts(document);
whileLive((fresh) => {
  putRegions(fresh);
  for (const chart of charts) chart.again();
});

saveCharts(charts, "compare");

parallel();

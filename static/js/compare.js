/* Comparison pages: their form and their charts. */

import { saveMenu } from "./charts/saving.js";
import { putRegions, whileLive } from "./compare/again.js";
import { groupCharts } from "./compare/group-chart.js";
import { parallel } from "./compare/parallel.js";
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

document.addEventListener("click", ({ target }) => {
  const button = target.closest("[data-save]"), section = target.closest(".compared");
  const chart = charts.find(({ element }) => section?.contains(element));
  if (button && chart) saveMenu(button, { plot: chart.plot, title: button.dataset.save, unit: "", name: `compare-${button.dataset.save.replaceAll("/", "-")}`, csv: button.dataset.csv });
});

parallel();

/* Comparison pages: their form and their charts. */

import { putRegions, whileLive } from "./compare/again.js";
import { groupCharts } from "./compare/group-chart.js";
import { parallel } from "./compare/parallel.js";
import { saveCharts } from "./compare/save.js";
import { Completion } from "./filter.js";

for (const input of document.querySelectorAll("[data-filter]")) new Completion(input);

for (const range of document.querySelectorAll("[data-submits][type=range]")) {
  range.addEventListener("input", () => (range.nextElementSibling.textContent = Number(range.value).toFixed(2)));
}

const charts = groupCharts(document);
whileLive((fresh) => {
  putRegions(fresh);
  for (const chart of charts) chart.again();
});

saveCharts(charts, "compare");

parallel();

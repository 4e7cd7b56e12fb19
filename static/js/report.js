/* The page of a report: its charts, with updates while their runs are active. */

import { putRegions, whileLive } from "./compare/again.js";
import { groupCharts } from "./compare/group-chart.js";

const charts = groupCharts(document);

whileLive((fresh) => {
  const twins = fresh.querySelectorAll("[data-group-chart]");
  if (twins.length !== charts.length) return location.reload();
  charts.forEach((chart, index) => chart.show(chart.given(twins[index])));
  putRegions(fresh);
  return undefined;
});

/* The page of a report: its charts, with updates while their runs are active. */

import { putRegions, whileLive } from "./compare/again.js";
import { broughtBy, groupCharts } from "./compare/group-chart.js";
import { saveCharts } from "./compare/save.js";

const charts = groupCharts(document);
saveCharts(charts, "report");

whileLive((fresh) => {
  const twins = fresh.querySelectorAll("[data-group-chart]");
  if (twins.length !== charts.length) return location.reload();
  charts.forEach((chart, index) => chart.show([broughtBy(twins[index])]));
  putRegions(fresh);
  return undefined;
});

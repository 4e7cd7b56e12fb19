/* A report that is read: its charts, and while their runs go on what has become of them. */

import { putRegions, whileLive } from "./compare/again.js";
import { groupCharts } from "./compare/group-chart.js";

const charts = groupCharts(document);

whileLive((fresh) => {
  const twins = fresh.querySelectorAll("[data-group-chart]");
  if (twins.length !== charts.length) return location.reload();
  charts.forEach((chart, place) => chart.show(chart.given(twins[place])));
  putRegions(fresh);
  return undefined;
});

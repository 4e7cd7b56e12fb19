/* A report that is read: its charts. */

import { groupCharts } from "./compare/group-chart.js";

groupCharts(document);

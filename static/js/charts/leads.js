/* The ancestors of a fork on its charts: their series up to the iteration of the fork, drawn faintly before those of the run. */

import { axisOf } from "./axis.js";
import { leadTrace } from "./traces.js";
import { SeriesStore } from "../series.js";

const NONE = { of: () => [], shown: new Set() };

/* Ancestors with a store each. `leads`: the server's list [{id, until, label}], the parent first. */
export function leadsOf(leads) {
  return leads.map((lead) => ({ ...lead, store: new SeriesStore(lead.id, { first: 0, last: lead.until }) }));
}

/* {of(line): its traces, shown: ids of the ancestors drawn}. `columns`: the run's own, by line. */
export function leadTraces(leads, lines, columns, view) {
  if (view.lead !== "shown" || !leads.length || (view.x === "time" && apart(leads, lines, columns))) return NONE;
  const shown = new Set(), traces = new Map();
  for (const line of lines) {
    traces.set(line, [...leads].reverse().flatMap((lead) => {
      const series = lead.store.get(line.key);
      if (!series?.steps.length) return [];
      shown.add(lead.id);
      return [leadTrace(line, series, axisOf(view.x, lead.store.get(view.axisKey)), view, lead)];
    }));
  }
  return { of: (line) => traces.get(line), shown };
}

/* Whether the parent was trained so much earlier that the time between them would fill most of a time axis. */
function apart(leads, lines, columns) {
  const own = columns.filter(Boolean).flatMap(({ times }) => [times[0], times.at(-1)]);
  const theirs = leads.flatMap(({ store }) => lines.flatMap(({ key }) => store.get(key)?.times ?? []));
  if (!own.length || !theirs.length) return false;
  const [first, last] = [Math.min(...own), Math.max(...own)], end = theirs.reduce((most, time) => Math.max(most, time), -Infinity);
  const start = theirs.reduce((least, time) => Math.min(least, time), Infinity);
  return first - end > last - first + end - start;
}

/* Shows the legends of the ancestors that a chart draws. */
export function showLeads(element, { shown }) {
  for (const item of element.querySelectorAll("[data-lead]")) item.hidden = !shown.has(item.dataset.lead);
}

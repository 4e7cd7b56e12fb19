/* The number of open health findings of a run, by level: the same badges as templates/health/_badges.html. */

import { el } from "./dom.js";

export function showFindings(place, run) {
  const badges = Object.entries(run.findings).map(([level, count]) => el("a", { class: `badge ${level}`, href: `/runs/${run.id}/health/`, title: "Open health findings" }, `${count} ${level}`));
  place.replaceChildren(...badges.flatMap((badge) => [badge, " "]));
}

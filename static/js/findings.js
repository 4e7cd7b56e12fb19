/* The number of open health findings of a run, by level: the same badges as templates/health/_badges.html. */

import { el } from "./dom.js";

export function showFindings(element, run) {
  const badges = Object.entries(run.findings).map(([level, count]) => el("a", { class: `badge ${level}`, href: `/runs/${run.id}/health/`, title: "Open health findings" }, `${count} ${level}`));
  element.replaceChildren(...badges.flatMap((badge) => [badge, " "]));
}

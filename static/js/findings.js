/* The open health findings of a run in one badge, colored by the most severe: the same as templates/health/_badges.html. */

import { el } from "./dom.js";

export function showFindings(element, run) {
  const { critical = 0, warning = 0 } = run.findings;
  const parts = [critical && `${critical} critical`, warning && `${warning} warning${warning === 1 ? "" : "s"}`].filter(Boolean);
  const look = `badge ${critical ? "bad" : "warn"}`, text = parts.join(", "), shown = element.firstElementChild;
  if (shown?.className === look && shown.textContent === text) return; // a link that is replaced while it is pressed receives no click
  const badge = el("a", { class: look, href: `/runs/${run.id}/health/`, title: "Open health findings" }, text);
  element.replaceChildren(...(parts.length ? [badge] : []));
}

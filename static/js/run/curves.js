/* Panels of charts, and the search over them. */

export function curves(board, specs, whole) {
  for (const spec of specs) {
    const element = document.getElementById(`chart-${spec.id}`);
    if (element) board.add(element, spec);
  }
  const search = document.querySelector("[data-chart-search]");
  search?.addEventListener("input", () => filter(search.value));
  if (search?.value) filter(search.value);
  return { delta: (message, unknown) => whole && fresh(specs, unknown) };
}

function filter(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  let shown = 0;
  for (const section of document.querySelectorAll("[data-section]")) {
    let some = false;
    for (const chart of section.querySelectorAll(".chart")) {
      chart.hidden = !words.every((word) => chart.dataset.words.includes(word));
      some ||= !chart.hidden;
      shown += chart.hidden ? 0 : 1;
    }
    section.hidden = !some;
  }
  document.querySelector("[data-no-charts]").hidden = shown > 0;
  const address = new URL(location.href);
  if (text) address.searchParams.set("q", text);
  else address.searchParams.delete("q");
  history.replaceState(null, "", address);
}

/* Metrics that the page was not made for: offer to show them; a page without any just does. */
function fresh(specs, unknown) {
  const known = new Set(specs.flatMap((spec) => spec.lines.map((line) => line.key)));
  if (!unknown.some((key) => !known.has(key))) return;
  if (!specs.length) location.reload();
  else document.querySelector("[data-new-metrics]").hidden = false;
}

/* Media of runs: the step slider, heat maps, and tables with sort and filter. The server renders the values of each step. */

import { addressSet } from "./address.js";
import { announce } from "./announce.js";
import { atMost, data } from "./dom.js";
import { onTheme } from "./compare/group-chart.js";
import { HeatMap } from "./media/heat-map.js";
import { mediaTables } from "./media/table.js";

const holder = document.querySelector("[data-media-values]"), tools = document.querySelector("[data-media-tools]");
const slider = tools.querySelector("[data-media-slider]"), field = tools.querySelector("[data-media-step]");
const steps = data("media-steps") ?? [];
let maps = [], asked = 0;

/* Heat maps stay in the page from one step to the next, with the chosen cell. */
function begin() {
  const before = new Map(maps.map((map) => [map.element.dataset.heatMap, map]));
  maps = [...holder.querySelectorAll("[data-heat-map]")].map((element) => {
    const old = before.get(element.dataset.heatMap);
    if (old) element.replaceWith(old.element);
    return old ?? new HeatMap(element);
  });
  for (const map of maps) map.others = maps.filter((other) => other !== map && other.name === map.name);
  mediaTables(holder);
  mark();
}

function mark() {
  for (const map of maps) map.mark(slider ? steps[Number(slider.value)] : null);
}

/* Reads the values of the address again. */
async function again() {
  const turn = ++asked, query = new URLSearchParams(location.search);
  query.set("part", "values");
  try {
    const answer = await fetch(`?${query}`, { headers: { Accept: "text/html" } });
    if (!answer.ok) throw new Error(`the server answered ${answer.status}`);
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    if (turn === asked) put(fresh.body, false); // else a later step has been asked for
  } catch (error) {
    announce("media", `The media of this step are not loaded: ${error.message}`, true);
  }
}

/* Shows what the server has rendered. `reload`: heat maps are read again, too. The focus stays. */
function put(fresh, reload) {
  const focused = holder.contains(document.activeElement) ? document.activeElement : null;
  const key = focused?.closest("[data-key]")?.dataset.key;
  holder.replaceChildren(...fresh.childNodes);
  begin();
  if (reload) maps.forEach((map) => map.load());
  if (key && focused.type === "search") holder.querySelector(`[data-key="${CSS.escape(key)}"] input`)?.focus();
  else focused?.focus();
}
const soon = atMost(120, again);

function slide() {
  const index = Number(slider.value), step = steps[index];
  field.value = step;
  slider.setAttribute("aria-valuetext", `step ${step}`);
  addressSet({ step: index === steps.length - 1 ? "" : String(step) });
  mark();
  soon();
}

slider?.addEventListener("input", slide);
field?.addEventListener("change", () => {
  const wanted = Number(field.value || NaN), index = steps.findLastIndex((step) => step <= wanted);
  if (Number.isNaN(wanted)) return void (field.value = steps[Number(slider.value)]);
  slider.value = Math.max(0, index);
  slide();
});
tools.addEventListener("submit", (event) => {
  if (!(event.submitter || document.activeElement === tools.elements.q)) return event.preventDefault();
  if (slider && Number(slider.value) === steps.length - 1 && field) field.disabled = true; // the last step stays the last one
});
tools.elements.q?.addEventListener("search", () => tools.requestSubmit());
onTheme(() => maps.forEach((map) => map.draw()));
begin();

/* New values of a run that is watched at its last step: the page is read again, with the steps of the slider. */
const mediaAgain = atMost(3000, async () => {
  if (slider && Number(slider.value) !== Number(slider.max)) return;
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (!slider && fresh.querySelector("[data-media-slider]")) return location.reload(); // there is a second step
  if (!slider) return put(fresh.querySelector("[data-media-values]"), true);
  const now = JSON.parse(fresh.getElementById("media-steps").textContent);
  steps.splice(0, steps.length, ...now);
  slider.max = String(now.length - 1); // first: a value above the maximum is cut
  slider.value = slider.max;
  field.value = now.at(-1);
  put(fresh.querySelector("[data-media-values]"), true);
});
document.addEventListener("mediagrown", mediaAgain);

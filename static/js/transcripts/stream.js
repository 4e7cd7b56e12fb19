/* The stream of episodes: older ones load on scrolling, newer ones as they are played, and the document stays small. */

import { atMost, el } from "../dom.js";
import { feed } from "../run.js";
import { ListWindow } from "./window.js";

const end = document.querySelector("[data-stream-end]");
const folded = document.querySelector(".more-filters");
if (folded && innerWidth < 760) folded.open = false; // results come first on a small screen
let list = null, busy = false;
let arrived = 0; // id of the newest episode of the deltas
let beyond = ""; // cursor after the rows that were read last; empty at the end of the list

function body() {
  return document.querySelector("[data-episodes] tbody");
}

function window_() {
  if (list && body()?.contains(list.room)) return list.window;
  const room = el("tr", { class: "room", hidden: true, "aria-hidden": "true" }, el("td", { colspan: 7 }));
  list = { room, window: new ListWindow(body(), room) };
  return list.window;
}

/* Rows of this page's filters beyond a cursor, and the cursor after them. */
async function rows(query) {
  const address = new URL(location.href);
  address.searchParams.delete("before");
  for (const [name, value] of Object.entries({ ...query, part: "rows" })) address.searchParams.set(name, value);
  const answer = await fetch(address, { headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  if (query.before) beyond = answer.headers.get("Troupe-Older");
  const holder = new DOMParser().parseFromString(`<table><tbody>${await answer.text()}</tbody></table>`, "text/html");
  return [...holder.querySelectorAll("tr")].map((row) => document.adoptNode(row));
}

async function more() {
  if (busy) return;
  if (window_().hasLater) return void window_().later();
  const link = end.querySelector("[data-older]");
  if (!link) return;
  busy = true;
  end.setAttribute("aria-busy", "true");
  try {
    const before = new URL(link.href).searchParams.get("before");
    const loaded = await rows({ before });
    window_().append(loaded);
    if (beyond) older(link, beyond, loaded.length);
    else link.remove();
  } catch {
    observer.disconnect(); // the link still works
  } finally {
    busy = false;
    end.removeAttribute("aria-busy");
  }
  if (near(end)) requestAnimationFrame(more);
}

/* The link leads to the next page. One that loads no row waits for a click: the server has examined many episodes for it. */
function older(link, before, count) {
  const address = new URL(link.href);
  address.searchParams.set("before", before);
  link.href = address;
  if (count) return;
  link.removeAttribute("data-older");
  link.textContent = "Search older";
}

function near(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return top < innerHeight + 600 && bottom > -600;
}

const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && more(), { rootMargin: "600px" });
observer.observe(end);

addEventListener("scroll", () => {
  if (!list) return;
  const { room, window: shown } = list;
  while (!room.hidden && shown.hasEarlier && room.getBoundingClientRect().bottom > -600) shown.earlier();
}, { passive: true });

/* New episodes of a filtered stream: only the server can filter them. An empty list begins after the newest episode that the server has examined. */
const fresh = atMost(1000, async () => {
  const table = document.querySelector("[data-episodes]"), upto = arrived;
  const after = window_().first?.dataset.id ?? table.dataset.newest;
  const loaded = [];
  let failed = false;
  for (let page = null; loaded.length < 600 && (page === null || page.length >= 60); loaded.push(...page)) {
    page = await rows(loaded.length ? { after, before: loaded.at(-1).dataset.id } : { after }).catch(() => {
      failed = true;
      return [];
    });
  }
  if (!failed) table.dataset.newest = Math.max(table.dataset.newest, upto);
  if (!loaded.length) return;
  for (const row of loaded) row.classList.add("fresh");
  window_().prepend(loaded.filter((row) => !document.getElementById(row.id)));
  document.querySelector("[data-episodes]").hidden = false;
  const empty = document.querySelector("[data-no-episodes]");
  if (empty) empty.hidden = true;
});

feed.addEventListener("delta", ({ detail: { episodes } }) => {
  const table = document.querySelector("[data-episodes]");
  arrived = Math.max(arrived, ...episodes.map((episode) => episode.id));
  if (episodes.length && table && !table.dataset.paused) fresh();
});

/* The stream of episodes: older ones load on scrolling, newer ones as they are played, and the document stays small. */

import { atMost, el } from "../dom.js";
import { feed } from "../run.js";
import { ListWindow } from "./window.js";

const end = document.querySelector("[data-stream-end]"), link = end.querySelector("[data-beyond]");
const folded = document.querySelector(".more-filters");
if (folded && innerWidth < 760) folded.open = false; // results come first on a small screen
let list = null, busy = false;
let arrived = 0; // id of the newest episode of the deltas

function body() {
  return document.querySelector("[data-episodes] tbody");
}

/* A region that was read again begins with the newest rows: so does the link below it. */
function window_() {
  if (list && body()?.contains(list.room)) return list.window;
  const room = el("tr", { class: "room", hidden: true, "aria-hidden": "true" }, el("td", { colspan: 7 }));
  const isAgain = list !== null, { older: before, search } = document.querySelector("[data-episodes]").dataset;
  list = { room, window: new ListWindow(body(), room) };
  if (isAgain) {
    older(before, search === undefined);
    requestAnimationFrame(() => near(end) && more());
  }
  return list.window;
}

/* Rows of this page's filters beyond a cursor, and the cursor after them; it is empty at the end of the list. */
async function rows(query) {
  const address = new URL(location.href);
  address.searchParams.delete("before");
  for (const [name, value] of Object.entries({ ...query, part: "rows" })) address.searchParams.set(name, value);
  const answer = await fetch(address, { headers: { Accept: "text/html" } });
  if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
  const holder = new DOMParser().parseFromString(`<table><tbody>${await answer.text()}</tbody></table>`, "text/html");
  return { loaded: [...holder.querySelectorAll("tr")].map((row) => document.adoptNode(row)), beyond: answer.headers.get("Troupe-Older") };
}

async function more() {
  if (busy) return;
  const shown = window_();
  if (shown.hasLater) return void shown.later();
  if (link.hidden || !("older" in link.dataset)) return;
  busy = true;
  end.setAttribute("aria-busy", "true");
  try {
    const before = new URL(link.href).searchParams.get("before");
    const { loaded, beyond } = await rows({ before });
    if (window_() === shown) {
      shown.append(loaded);
      older(beyond, loaded.length > 0);
    }
  } catch {
    return observer.disconnect(); // the link still works
  } finally {
    busy = false;
    end.removeAttribute("aria-busy");
  }
  if (near(end)) requestAnimationFrame(more);
}

/* The link leads to the next page, if there is one. After a page without a row it waits for a click: the server has examined many
   episodes for that page. */
function older(before, hadRows) {
  link.hidden = !before;
  const address = new URL(link.href);
  address.searchParams.set("before", before);
  link.href = address;
  link.toggleAttribute("data-older", hadRows);
  link.textContent = hadRows ? "Older" : "Search older";
}

function near(element) {
  const { top, bottom } = element.getBoundingClientRect();
  return top < innerHeight + 600 && bottom > -600;
}

const observer = new IntersectionObserver((entries) => entries.some((entry) => entry.isIntersecting) && more(), { rootMargin: "600px" });
observer.observe(end);

addEventListener("scroll", () => {
  if (!list) return;
  const shown = window_(), { room } = list;
  while (!room.hidden && shown.hasEarlier && room.getBoundingClientRect().bottom > -600) shown.earlier();
}, { passive: true });

/* New episodes of a filtered stream: only the server can filter them. An empty list begins after the newest episode that the server has examined. */
const fresh = atMost(1000, async () => {
  const table = document.querySelector("[data-episodes]"), upto = arrived;
  const shown = window_(), after = shown.first?.dataset.id ?? table.dataset.newest;
  const loaded = [];
  let failed = false;
  for (let page = null; loaded.length < 600 && (page === null || page.length >= 60); loaded.push(...page)) {
    try {
      page = (await rows(loaded.length ? { after, before: loaded.at(-1).dataset.id } : { after })).loaded;
    } catch {
      [page, failed] = [[], true];
    }
  }
  if (!failed) table.dataset.newest = Math.max(table.dataset.newest, upto);
  if (!loaded.length || window_() !== shown) return;
  for (const row of loaded) row.classList.add("fresh");
  shown.prepend(loaded.filter((row) => !document.getElementById(row.id)));
  document.querySelector("[data-episodes]").hidden = false;
  const empty = document.querySelector("[data-no-episodes]");
  if (empty) empty.hidden = true;
});

feed.addEventListener("delta", ({ detail: { episodes } }) => {
  const table = document.querySelector("[data-episodes]");
  arrived = Math.max(arrived, ...episodes.map((episode) => episode.id));
  if (episodes.length && table && !table.dataset.paused) fresh();
});

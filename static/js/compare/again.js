import { announceRegions } from "../announce.js";

/* The page as the server renders it now. */

export async function pageAgain() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } }).catch(() => null);
  return answer?.ok ? new DOMParser().parseFromString(await answer.text(), "text/html") : null;
}

/* Replaces the old regions, except one that has the focus. */
export function putRegions(fresh) {
  for (const old of document.querySelectorAll("[data-region]")) {
    const twin = fresh.querySelector(`[data-region="${CSS.escape(old.dataset.region)}"]`);
    if (twin && !old.contains(document.activeElement)) old.replaceWith(document.adoptNode(twin));
  }
  announceRegions();
}

/* While a displayed run is active and the page is visible, calls `work` with the fresh page at intervals. */
export function whileLive(work) {
  if (!document.querySelector("[data-live]")) return;
  const timer = setInterval(async () => {
    if (document.visibilityState !== "visible") return;
    const fresh = await pageAgain();
    if (!fresh) return;
    work(fresh);
    if (!fresh.querySelector("[data-live]")) clearInterval(timer);
  }, 15_000);
}

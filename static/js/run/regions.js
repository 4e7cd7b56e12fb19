/* After a resync, replaces the regions that the server renders with fresh ones.
   Returns the script data of the fresh page, and the page, if it could be read. */

import { announceRegions } from "../announce.js";

export async function readAgain() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return null;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of document.querySelectorAll("[data-region]")) {
    const twin = fresh.querySelector(`[data-region="${CSS.escape(old.dataset.region)}"]`);
    if (twin && !old.contains(document.activeElement)) old.replaceWith(document.adoptNode(twin));
  }
  announceRegions();
  const handed = fresh.getElementById("run-page");
  return handed ? { ...JSON.parse(handed.textContent), page: fresh } : null;
}

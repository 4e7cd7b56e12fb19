/* After a resync, parts that the server rendered are read again from it and put in the place of the old ones.
   Returns what the fresh page would hand to its script, if it could be read. */

export async function readAgain() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return null;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of document.querySelectorAll("[data-region]")) {
    const twin = fresh.querySelector(`[data-region="${CSS.escape(old.dataset.region)}"]`);
    if (twin && !old.contains(document.activeElement)) old.replaceWith(document.adoptNode(twin));
  }
  const handed = fresh.getElementById("run-page");
  return handed ? JSON.parse(handed.textContent) : null;
}

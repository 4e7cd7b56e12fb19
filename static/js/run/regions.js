/* After a resync, parts that the server rendered are read again from it and put in the place of the old ones. */

export async function readAgain() {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) return;
  const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
  for (const old of document.querySelectorAll("[data-region]")) {
    const twin = fresh.querySelector(`[data-region="${CSS.escape(old.dataset.region)}"]`);
    if (twin && !old.contains(document.activeElement)) old.replaceWith(document.adoptNode(twin));
  }
}

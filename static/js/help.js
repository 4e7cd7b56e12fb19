/* "?" buttons: an explanation next to the button. Escape, the button or a click elsewhere closes it. */

const GAP = 6;
const box = document.createElement("div");
box.className = "help-box";
box.popover = "manual";
box.tabIndex = -1;
box.setAttribute("role", "dialog");
let opener = null;

function close() {
  if (!opener) return;
  const inside = box.contains(document.activeElement);
  opener.setAttribute("aria-expanded", "false");
  if (inside) opener.focus();
  opener = null;
  box.hidePopover();
}

function place(button) {
  const at = button.getBoundingClientRect();
  const left = Math.max(GAP, Math.min(at.left, innerWidth - box.offsetWidth - GAP));
  const below = at.bottom + GAP + box.offsetHeight < innerHeight;
  box.style.left = `${left}px`;
  box.style.top = `${Math.max(GAP, below ? at.bottom + GAP : at.top - GAP - box.offsetHeight)}px`;
}

async function open(button) {
  opener = button;
  button.setAttribute("aria-expanded", "true");
  const about = document.getElementById(button.getAttribute("aria-describedby")) ?? button.closest("th");
  box.setAttribute("aria-label", about ? `Explanation: ${about.textContent.replace("?", "").trim()}` : button.getAttribute("aria-label"));
  const answer = await fetch(button.dataset.help).catch(() => null);
  if (opener !== button) return;
  if (answer?.ok && !answer.redirected) box.replaceChildren(...new DOMParser().parseFromString(await answer.text(), "text/html").body.childNodes);
  else box.textContent = "The explanation cannot be loaded; the server does not answer.";
  if (opener !== button) return;
  document.body.append(box);
  box.showPopover();
  place(button);
  box.focus();
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button[data-help]");
  if (!button && box.contains(event.target)) return;
  const again = button === opener;
  close();
  if (button && !again) open(button);
});

document.addEventListener(
  "keydown",
  (event) => {
    if (event.key !== "Escape" || !opener) return;
    event.preventDefault();
    event.stopPropagation();
    close();
  },
  { capture: true },
);
addEventListener("scroll", () => opener && place(opener), { passive: true });
addEventListener("resize", () => opener && place(opener));

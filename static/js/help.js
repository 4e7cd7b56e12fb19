/* Explanations of terms: shown while the pointer is on a term or its button has the focus. The button (Enter) or a click on the term keeps the
   explanation open and moves the focus into it. Escape or a click elsewhere closes it. */

const GAP = 6, REST = 350, LEAVE = 250; // milliseconds of the pointer before the explanation opens and closes
const BUTTON = "button[data-help]";
/* A term is the element before its button, or a head of a column, a tile or a field with a button in it. */
const TERM = `:has(+ ${BUTTON}), :is(th, dt, .field-label):has(> ${BUTTON})`;
const box = document.createElement("div");
box.className = "help-box";
box.popover = "manual";
box.tabIndex = -1;
box.setAttribute("role", "dialog");
let opener = null, pinned = false, byFocus = false, timer = null, returning = false;

function close() {
  clearTimeout(timer);
  if (!opener) return;
  const inside = box.contains(document.activeElement);
  opener.setAttribute("aria-expanded", "false");
  returning = inside; // the focus that comes back does not open it again
  if (inside) opener.focus();
  returning = false;
  opener = null;
  pinned = byFocus = false;
  box.hidePopover();
}

function termOf(button) {
  return button.previousElementSibling ?? button.parentElement;
}

function buttonOf(target) {
  const term = target.closest?.(TERM);
  return target.closest?.(BUTTON) ?? term?.parentElement.querySelector(`:scope > ${BUTTON}`) ?? term?.querySelector(`:scope > ${BUTTON}`) ?? null;
}

function place(button) {
  const at = termOf(button).getBoundingClientRect();
  const left = Math.max(GAP, Math.min(at.left, innerWidth - box.offsetWidth - GAP));
  const below = at.bottom + GAP + box.offsetHeight < innerHeight;
  box.style.left = `${left}px`;
  box.style.top = `${Math.max(GAP, below ? at.bottom + GAP : at.top - GAP - box.offsetHeight)}px`;
}

async function open(button) {
  close();
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
  if (pinned) box.focus();
}

async function pin(button) {
  const shown = button === opener;
  if (!shown) open(button);
  pinned = true;
  if (shown && box.isConnected) box.focus();
}

document.addEventListener("click", (event) => {
  if (box.contains(event.target)) return;
  const button = event.target.closest("a, label, input, select") ? null : buttonOf(event.target);
  if (!button || (button === opener && pinned)) close();
  else pin(button);
});

document.addEventListener("pointerover", (event) => {
  if (event.pointerType === "touch" || pinned) return;
  const button = buttonOf(event.target), held = button === opener || box.contains(event.target);
  clearTimeout(timer);
  if (held && opener) return;
  if (button) timer = setTimeout(() => open(button), REST);
  else if (opener && !byFocus) timer = setTimeout(close, LEAVE);
});

document.addEventListener("focusin", (event) => {
  const button = event.target.closest(BUTTON);
  if (button && !returning && button !== opener && button.matches(":focus-visible")) {
    open(button);
    byFocus = true;
  }
});

document.addEventListener("focusout", (event) => {
  if (opener && !pinned && event.target === opener && event.relatedTarget !== box) close();
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

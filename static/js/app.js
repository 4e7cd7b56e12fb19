/* Common to every page: theme, menu, keyboard, copy buttons, times. */

import { announce, announceRegions } from "./announce.js";
import "./help.js";
import { startTimes } from "./times.js";

const THEMES = ["system", "light", "dark"];

function showTheme() {
  const name = localStorage.getItem("theme") ?? "system";
  for (const label of document.querySelectorAll("[data-theme-name]")) label.textContent = name;
}

function nextTheme() {
  const now = localStorage.getItem("theme") ?? "system";
  const next = THEMES[(THEMES.indexOf(now) + 1) % THEMES.length];
  if (next === "system") {
    localStorage.removeItem("theme");
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem("theme", next);
    document.documentElement.dataset.theme = next;
  }
  showTheme();
  announce("", `Theme: ${next}`);
  document.dispatchEvent(new Event("themechange"));
}

async function copy(button) {
  const source = document.getElementById(button.dataset.copy);
  const was = button.textContent;
  try {
    await navigator.clipboard.writeText(source.textContent);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(source);
    button.textContent = "Selected";
  }
  announce("", button.textContent);
  setTimeout(() => (button.textContent = was), 1500);
}

function toggleMenu(button) {
  const open = document.getElementById("side").classList.toggle("open");
  button.setAttribute("aria-expanded", String(open));
}

document.addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  const button = event.target.closest("button");
  if (!button) return;
  if (button.dataset.copy) copy(button);
  else if ("menu" in button.dataset) toggleMenu(button);
  else if ("themeToggle" in button.dataset) nextTheme();
  else if ("keysOpen" in button.dataset) document.getElementById("keys").showModal();
});

/* Keyboard. Letters are shortcuts only outside text fields. */
let pending = "";

function typing(target) {
  return target.isContentEditable || target.matches("input:not([type=range]), textarea, select");
}

function moveRow(step) {
  const links = [...document.querySelectorAll("a.row-link")];
  const here = links.indexOf(document.activeElement);
  links[here < 0 ? 0 : Math.max(0, Math.min(links.length - 1, here + step))]?.focus();
}

function go(selector) {
  document.querySelector(selector)?.click();
}

const ACTIONS = {
  "/": () => document.querySelector("[data-search]")?.focus(),
  "?": () => document.getElementById("keys")?.showModal(),
  t: nextTheme,
  j: () => document.querySelector("[data-turns]") || moveRow(1),
  k: () => document.querySelector("[data-turns]") || moveRow(-1),
  "[": () => go("[data-key-older]"),
  "]": () => go("[data-key-newer]"),
  gr: () => go("nav a[href='/runs/']"),
  gn: () => go("nav a[href='/experiments/new/']"),
};

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
  if (event.key === "Escape") for (const menu of document.querySelectorAll("details.menu[open]")) menu.open = false;
  if (event.key === "Escape" && event.target.matches?.("[data-search]")) event.target.blur();
  if (typing(event.target)) return;
  const chord = pending + event.key;
  pending = event.key === "g" ? "g" : "";
  if (/^[1-9]$/.test(event.key)) go(`.tabs a:nth-child(${event.key})`);
  const action = ACTIONS[chord] ?? ACTIONS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

showTheme();
startTimes();
document.addEventListener("htmx:afterSettle", announceRegions);
setTimeout(announceRegions, 300); // a region that is filled while the page is being opened is not announced
document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest" });

/* Current colours of the page (light or dark), by token name. */

import { el } from "../dom.js";

const NAMES = [
  "d0", "d1", "d2", "d3", "d4", "d5", "d6", "t4", ...Array.from({ length: 12 }, (_, index) => `r${index + 1}`), "accent", "ink", "ink-3", "border", "border-strong", "panel", "warn", "bad",
];
let palette = null;

function read() {
  const probe = document.body.appendChild(el("span", { hidden: true }));
  const colours = {};
  for (const name of NAMES) {
    probe.style.color = `var(--${name})`;
    colours[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return colours;
}

export function colour(name) {
  palette ??= read();
  return palette[name];
}

export function toneColour(tone) {
  return colour(typeof tone === "string" ? tone : `d${tone}`);
}

export function faint(rgb, alpha) {
  return rgb.replace(/^rgb\((.*)\)$/, `rgba($1, ${alpha})`);
}

/* Clears the cache after a change of theme. */
export function forgetColours() {
  palette = null;
}

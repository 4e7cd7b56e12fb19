/* Shared by all board drawings. */

import { el, svg } from "../dom.js";

export const MOST_CELLS = 10000;

/* A whole number from `least` to `most`. Throws an Error with the field's name. */
export function whole(value, name, least = 0, most = MOST_CELLS) {
  if (!Number.isInteger(value) || value < least || value > most) throw new Error(`${name} is not a whole number from ${least} to ${most}`);
  return value;
}

export function real(value, name) {
  if (!Number.isFinite(value)) throw new Error(`${name} is not a number`);
  return value;
}

export function list(value, name) {
  if (!Array.isArray(value)) throw new Error(`${name} is not a list`);
  return value;
}

export function picture(width, height, label, ...parts) {
  return svg("svg", { class: "board", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...parts);
}

export function legendItem(name, ...parts) {
  return [name, el("li", {}, svg("svg", { viewBox: "0 0 1 1", class: "board", "aria-hidden": "true" }, ...parts), name)];
}

/* The path through points [x, y]. */
export function way(places, attributes = {}) {
  if (places.length < 2) return [];
  return [svg("polyline", { class: "trail", points: places.map(([x, y]) => `${x},${y}`).join(" "), ...attributes })];
}

/* Brushes over parallel coordinates: dragged along an axis or entered as ranges, they are stored in the address; the server
   returns the selected runs. */

import { addressGet, addressSet } from "../address.js";
import { svg } from "../dom.js";
import { pageAgain } from "./again.js";

const LEAST = 4;

export function parallel() {
  document.addEventListener("pointerdown", (event) => {
    const grip = event.target.closest?.("[data-parallel] .grip");
    if (grip) drag(grip, event);
  });
  document.addEventListener("change", ({ target }) => {
    const range = target.closest("[data-range]");
    if (range) brush(range.dataset.range, written(range));
  });
}

function axes() {
  return JSON.parse(document.getElementById("parallel-axes").textContent);
}

function drag(grip, start) {
  const picture = grip.closest("svg"), group = grip.closest(".axis");
  const { top, bottom } = Object.fromEntries(["top", "bottom"].map((name) => [name, Number(picture.dataset[name])]));
  const height = (event) => {
    const box = picture.getBoundingClientRect();
    return Math.min(bottom, Math.max(top, (event.clientY - box.top) * picture.viewBox.baseVal.height / box.height));
  };
  const from = height(start), x = Number(grip.getAttribute("x")) + 6 /* the middle is the axis */;
  let to = from;
  group.querySelector(".brush")?.remove();
  const shape = svg("rect", { class: "brush", x, width: 16, y: from, height: 0 });
  group.insertBefore(shape, grip);
  grip.setPointerCapture(start.pointerId);
  const move = (event) => {
    to = height(event);
    shape.setAttribute("y", Math.min(from, to));
    shape.setAttribute("height", Math.abs(to - from));
  };
  const position = (y) => snapped((bottom - y) / (bottom - top));
  grip.addEventListener("pointermove", move);
  grip.addEventListener("pointerup", () => {
    const axis = axes().find((candidate) => candidate.name === group.dataset.axis);
    brush(axis.name, Math.abs(to - from) < LEAST ? null : between(axis, position(Math.max(from, to)), position(Math.min(from, to))));
  }, { once: true });
}

/* Snaps to the end of the axis. */
function snapped(position) {
  return position < 0.02 ? 0 : position > 0.98 ? 1 : position;
}

/* The values of an axis between two positions. */
function between(axis, low, high) {
  if (axis.kind === "category") {
    const step = axis.categories.length > 1 ? 1 / (axis.categories.length - 1) : 0;
    return axis.categories.filter((_, index) => (step ? index * step : 0.5) >= low && (step ? index * step : 0.5) <= high);
  }
  const value = (position) => (axis.log ? axis.low * (axis.high / axis.low) ** position : axis.low + position * (axis.high - axis.low));
  return [rounded(value(low), -1), rounded(value(high), 1)];
}

/* Rounded to four digits, outwards. */
function rounded(value, side) {
  if (!value) return 0;
  const unit = 10 ** (Math.floor(Math.log10(Math.abs(value))) - 3);
  return Number(((side < 0 ? Math.floor(value / unit + 1e-9) : Math.ceil(value / unit - 1e-9)) * unit).toPrecision(6));
}

function written(range) {
  const axis = axes().find((candidate) => candidate.name === range.dataset.range);
  if (axis.kind === "category") {
    const chosen = [...range.querySelectorAll("input:checked")].map((box) => box.value);
    return chosen.length === axis.categories.length ? null : chosen;
  }
  const [least, most] = [...range.querySelectorAll("input")].map((input) => input.value);
  return least === "" && most === "" ? null : [least === "" ? axis.low : Number(least), most === "" ? axis.high : Number(most)];
}

/* Updates the address and reads the result again. */
async function brush(name, chosen) {
  const brushes = Object.fromEntries(axes().filter((axis) => axis.brush).map((axis) => [axis.name, axis.brush]));
  if (chosen) brushes[name] = chosen;
  else delete brushes[name];
  addressSet({ brush: Object.keys(brushes).length ? JSON.stringify(brushes) : "" });
  for (const input of document.querySelectorAll("[data-compare] input[name=brush]")) input.value = addressGet("brush", "");
  const fresh = await pageAgain();
  if (fresh) put(fresh);
}

/* Replaces the picture with the server's, and keeps the focus in the range field. */
function put(fresh) {
  const region = "[data-region='parallel']", old = document.querySelector(region), inputs = (of) => [...of.querySelectorAll("[data-range] input")];
  const focused = inputs(old).indexOf(document.activeElement);
  const twin = document.adoptNode(fresh.querySelector(region));
  old.replaceWith(twin);
  if (focused >= 0) {
    twin.querySelector(".ranges").open = true;
    inputs(twin)[focused].focus();
  }
}

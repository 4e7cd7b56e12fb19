/* Elements from plain values. Text is always set as text: agents' answers are never markup. */

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    element.setAttribute(name, value === true ? "" : String(value));
  }
  for (const child of children.flat()) if (child !== null && child !== undefined && child !== false) element.append(child);
  return element;
}

export function el(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function data(id, holder = document) {
  const element = holder.getElementById(id);
  return element ? JSON.parse(element.textContent) : null;
}

/* Whether a control differs from the page as it was sent: by input before the scripts were loaded, or restored by the browser. */
export function edited({ type, checked, defaultChecked, value, defaultValue, options }) {
  if (options) return ([...options].find((option) => option.defaultSelected) ?? options[0])?.selected === false;
  return type === "checkbox" || type === "radio" ? checked !== defaultChecked : value !== defaultValue;
}

/* Runs `work` soon, at most once per `interval` milliseconds (a number, or a function that returns it); calls in between are merged. */
export function atMost(interval, work) {
  const pause = typeof interval === "function" ? interval : () => interval;
  let last = -Infinity, timer = null;
  return () => {
    if (timer !== null) return;
    timer = setTimeout(() => {
      timer = null;
      last = performance.now();
      work();
    }, Math.max(0, last + pause() - performance.now()));
  };
}

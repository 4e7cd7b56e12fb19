/* The timeline on a canvas: wheel and +/− zoom, dragging and arrows pan, hovering shows details, the address stores the window. */

import { atMost, data, el } from "./dom.js";
import { readJson } from "./requests.js";
import { readAgain } from "./run/regions.js";
import { CARPET, carpeted, draw, laneAt, layout, palette } from "./timeline-draw.js";
import { View, elapsed, stretch } from "./timeline-view.js";

const SETTLED = 400;
const PAN = 0.2, ZOOM = 0.7;

const handed = data("timeline-window");
const frame = document.querySelector("[data-timeline]");
if (handed && frame) new Timeline(frame, handed).start();

function Timeline(root, page) {
  const canvas = root.querySelector("canvas"), tip = root.querySelector("[data-tip]"), said = root.querySelector("[data-said]");
  const context = canvas.getContext("2d");
  const view = new View(page.start, page.end, page.whole);
  const fingers = new Map();
  let shown = null, place = null, colours = null, pointer = null, asked = null, settling = null;

  const paint = () => requestAnimationFrame(() => shown && place && draw(context, place, view, shown, colours, pointer));

  function measure() {
    place = layout(shown.lanes, root.clientWidth, shown.carpet);
    const scale = window.devicePixelRatio || 1;
    canvas.width = Math.round(place.width * scale);
    canvas.height = Math.round(place.height * scale);
    canvas.style.height = `${place.height}px`;
    root.classList.toggle("carpet", place.carpet);
    paint();
  }

  function recolour() {
    colours = palette(root, [...new Set(shown.lanes.flatMap((lane) => lane.spans.map((span) => span.phase)))]);
    paint();
  }

  async function load() {
    asked?.abort();
    asked = new AbortController();
    const margin = view.length;
    const query = new URLSearchParams({ from: Math.max(0, view.start - margin), to: view.end + margin });
    try {
      shown = await readJson(`${page.url}?${query}`, asked.signal);
      shown.carpet = shown.lanes.length > CARPET;
      shown.lanes = carpeted(shown.lanes);
    } catch (error) {
      if (error.name !== "AbortError") said.textContent = `Not loaded: ${error.message}. Zoom or pan to try again.`;
      return;
    }
    const follows = view.followsEnd;
    view.whole = [shown.run_start, shown.run_end];
    if (follows) view.set(shown.run_end - view.length, shown.run_end);
    root.dataset.ready = "";
    root.closest("section").classList.add("scripted");
    measure();
    recolour();
    tell();
  }

  /* Whether the loaded data cover the window at its resolution. */
  function enough() {
    if (!shown) return false;
    const [low, high] = view.whole;
    const held = Math.max(view.start, low) >= Math.max(shown.start, low) - 1e-6 && Math.min(view.end, high) <= Math.min(shown.end, high) + 1e-6;
    return held && !(shown.joined && shown.end - shown.start > 6 * view.length);
  }

  function changed() {
    paint();
    tell();
    clearTimeout(settling);
    settling = setTimeout(() => {
      const address = new URL(location.href);
      address.searchParams.delete("first");
      address.searchParams.delete("last");
      address.searchParams.set("from", view.start.toFixed(3));
      address.searchParams.set("to", view.end.toFixed(3));
      history.replaceState(null, "", address);
      readAgain();
      if (!enough()) load();
    }, SETTLED);
  }

  function tell() {
    const inside = shown.iterations.filter((each) => each.end >= view.start && each.start <= view.end).map((each) => each.iteration);
    const which = inside.length ? `, iterations ${Math.min(...inside)} to ${Math.max(...inside)}` : "";
    said.textContent = `${stretch(view.length)} seen, from ${elapsed(view.start - shown.run_start, view.length / 100)}${which}${shown.cut ? "; too many spans, the later ones are left out" : ""}`;
  }

  function moment(x) {
    return view.start + ((x - place.gutter) / (place.width - place.gutter)) * view.length;
  }

  function point(event) {
    const box = canvas.getBoundingClientRect();
    pointer = { x: event.clientX - box.left, y: event.clientY - box.top };
    if (pointer.x < place.gutter) pointer = null;
    paint();
    describe();
  }

  function describe() {
    const lines = pointer ? found(moment(pointer.x), pointer.y) : null;
    tip.hidden = !lines;
    if (!lines) return;
    tip.replaceChildren(...lines.map((text, index) => el(index ? "span" : "strong", {}, text)));
    const left = Math.min(pointer.x + 14, place.width - tip.offsetWidth - 4);
    tip.style.left = `${Math.max(0, left)}px`;
    tip.style.top = `${pointer.y + 18}px`;
  }

  function found(at, y) {
    const when = elapsed(at - shown.run_start, view.length / 500);
    const lane = shown.lanes[laneAt(place, y)];
    if (!lane) {
      const each = y >= place.strip ? shown.iterations.find((one) => one.start <= at && one.end >= at) : null;
      if (!each) return null;
      const most = Object.entries(each.shares).sort((a, b) => b[1] - a[1]).slice(0, 3);
      return [`iteration ${each.iteration}: waited ${percent(each.mean)}`, ...most.map(([label, share]) => `${label} ${percent(share)}`)];
    }
    const slack = (view.length / (place.width - place.gutter)) * 2;
    const span = lane.spans.findLast((each) => each.start <= at && each.end >= at) ?? lane.spans.findLast((each) => each.start - slack <= at && each.end + slack >= at);
    const load = lane.utilisation?.findLast(([time]) => time <= at);
    const busy = load ? [`${lane.device} ${Math.round(load[1])}%`] : [];
    if (!span) return ["waits", lane.label, when, ...busy];
    return [`${span.phase} ${stretch(span.end - span.start)}`, lane.label, `iteration ${span.iteration}`, when, ...busy];
  }

  function keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = {
      ArrowLeft: () => view.pan(-PAN), ArrowRight: () => view.pan(PAN), "+": () => view.zoom(ZOOM), "=": () => view.zoom(ZOOM),
      "-": () => view.zoom(1 / ZOOM), 0: () => view.set(...view.whole), Home: () => view.set(view.whole[0], view.whole[0] + view.length),
      End: () => view.set(view.whole[1] - view.length, view.whole[1]),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
    changed();
  }

  function wheel(event) {
    event.preventDefault();
    const box = canvas.getBoundingClientRect(), inner = place.width - place.gutter;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.pan(event.deltaX / inner);
    else view.zoom(Math.exp(Math.sign(event.deltaY) * Math.min(0.5, Math.abs(event.deltaY) / 300)), Math.min(1, Math.max(0, (event.clientX - box.left - place.gutter) / inner)));
    changed();
  }

  function drag(event) {
    const before = fingers.get(event.pointerId);
    if (!before) return point(event);
    const inner = place.width - place.gutter;
    const others = [...fingers.entries()].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const other = others[0][1].x, box = canvas.getBoundingClientRect();
      const apart = Math.max(20, Math.abs(event.clientX - other)), was = Math.max(20, Math.abs(before.x - other));
      view.zoom(was / apart, Math.min(1, Math.max(0, ((event.clientX + other) / 2 - box.left - place.gutter) / inner)));
    } else {
      view.pan((before.x - event.clientX) / inner);
    }
    fingers.set(event.pointerId, { x: event.clientX });
    point(event);
    changed();
  }

  const lift = (event) => {
    fingers.delete(event.pointerId);
    canvas.classList.remove("dragged");
  };
  const follow = atMost(2000, () => load());

  this.start = () => {
    canvas.addEventListener("wheel", wheel, { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, { x: event.clientX });
      canvas.setPointerCapture(event.pointerId);
      canvas.classList.add("dragged");
    });
    canvas.addEventListener("pointermove", (event) => shown && drag(event));
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", () => {
      pointer = null;
      tip.hidden = true;
      paint();
    });
    canvas.addEventListener("keydown", (event) => shown && keys(event));
    for (const button of root.closest("section").querySelectorAll("[data-key]")) {
      button.addEventListener("click", () => shown && keys(new KeyboardEvent("keydown", { key: button.dataset.key })));
    }
    new ResizeObserver(() => shown && measure()).observe(root);
    document.addEventListener("themechange", () => shown && recolour());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown && recolour());
    document.addEventListener("rundelta", () => {
      if (shown && !document.hidden && view.followsEnd) follow();
    });
    load();
  };
}

function percent(share) {
  return `${Math.round(share * 100)}%`;
}

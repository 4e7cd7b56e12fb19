/* The timeline on a canvas: wheel and +/− zoom, dragging and arrows pan, hovering shows details, the address stores the window. */

import { announce, write } from "./announce.js";
import { addressSet } from "./address.js";
import { atMost, data, el } from "./dom.js";
import { readJson } from "./requests.js";
import { feed } from "./run.js";
import { readAgain } from "./run/regions.js";
import { CARPET, carpeted, draw, laneAt, layout, palette } from "./timeline-draw.js";
import { View, elapsed, stretch } from "./timeline-view.js";

const SETTLED = 400;
const PAN = 0.2, ZOOM = 0.7;

class Timeline {
  #root; #page; #view; #canvas; #context; #tip; #status;
  #fingers = new Map(); #shown = null; #layout = null; #colours = null; #pointer = null; #asked = null; #settling = null;
  #follow = atMost(2000, () => this.#load());

  constructor(root, page) {
    this.#root = root;
    this.#page = page;
    this.#view = new View(page.start, page.end, page.whole);
    this.#canvas = root.querySelector("canvas");
    this.#context = this.#canvas.getContext("2d");
    this.#tip = root.querySelector("[data-tip]");
    this.#status = root.querySelector("[data-said]");
    this.#listen();
    this.#load();
  }

  #listen() {
    const canvas = this.#canvas;
    canvas.addEventListener("wheel", (event) => this.#wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", (event) => {
      this.#fingers.set(event.pointerId, { x: event.clientX });
      canvas.setPointerCapture(event.pointerId);
      canvas.classList.add("dragged");
    });
    canvas.addEventListener("pointermove", (event) => this.#shown && this.#drag(event));
    for (const type of ["pointerup", "pointercancel"]) canvas.addEventListener(type, (event) => this.#lift(event));
    canvas.addEventListener("pointerleave", () => {
      this.#pointer = null;
      this.#tip.hidden = true;
      this.#paint();
    });
    canvas.addEventListener("keydown", (event) => this.#shown && this.#keys(event));
    for (const button of this.#root.closest("section").querySelectorAll("[data-key]")) {
      button.addEventListener("click", () => this.#shown && this.#keys(new KeyboardEvent("keydown", { key: button.dataset.key })));
    }
    new ResizeObserver(() => this.#shown && this.#measure()).observe(this.#root);
    document.addEventListener("themechange", () => this.#shown && this.#recolour());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#shown && this.#recolour());
    feed.addEventListener("delta", () => this.#shown && !document.hidden && this.#view.followsEnd && this.#follow());
  }

  #paint() {
    requestAnimationFrame(() => {
      if (this.#shown && this.#layout) draw(this.#context, this.#layout, this.#view, this.#shown, this.#colours, this.#pointer);
    });
  }

  #measure() {
    this.#layout = layout(this.#shown.lanes, this.#root.clientWidth, this.#shown.carpet);
    const scale = window.devicePixelRatio || 1;
    this.#canvas.width = Math.round(this.#layout.width * scale);
    this.#canvas.height = Math.round(this.#layout.height * scale);
    this.#canvas.style.height = `${this.#layout.height}px`;
    this.#root.classList.toggle("carpet", this.#layout.carpet);
    this.#paint();
  }

  #recolour() {
    this.#colours = palette(this.#root, [...new Set(this.#shown.lanes.flatMap((lane) => lane.spans.map((span) => span.phase)))]);
    this.#paint();
  }

  async #load() {
    this.#asked?.abort();
    this.#asked = new AbortController();
    const margin = this.#view.length;
    const query = new URLSearchParams({ from: Math.max(0, this.#view.start - margin), to: this.#view.end + margin });
    try {
      this.#shown = await readJson(`${this.#page.url}?${query}`, this.#asked.signal);
      this.#shown.carpet = this.#shown.lanes.length > CARPET;
      this.#shown.lanes = carpeted(this.#shown.lanes);
    } catch (error) {
      if (error.name === "AbortError") return;
      write(this.#status, `Not loaded: ${error.message}. Zoom or pan to try again.`);
      announce("timeline", this.#status.textContent, true);
      return;
    }
    const follows = this.#view.followsEnd;
    this.#view.whole = [this.#shown.run_start, this.#shown.run_end];
    if (follows) this.#view.set(this.#shown.run_end - this.#view.length, this.#shown.run_end);
    this.#root.dataset.ready = "";
    this.#root.closest("section").classList.add("scripted");
    this.#measure();
    this.#recolour();
    this.#tell();
  }

  /* Whether the loaded data cover the window at its resolution. */
  #enough() {
    if (!this.#shown) return false;
    const [low, high] = this.#view.whole;
    const held = Math.max(this.#view.start, low) >= Math.max(this.#shown.start, low) - 1e-6 && Math.min(this.#view.end, high) <= Math.min(this.#shown.end, high) + 1e-6;
    return held && !(this.#shown.joined && this.#shown.end - this.#shown.start > 6 * this.#view.length);
  }

  #changed() {
    this.#paint();
    this.#tell();
    clearTimeout(this.#settling);
    this.#settling = setTimeout(() => {
      addressSet({ first: "", last: "", from: this.#view.start.toFixed(3), to: this.#view.end.toFixed(3) });
      announce("", this.#status.textContent);
      readAgain();
      if (!this.#enough()) this.#load();
    }, SETTLED);
  }

  #tell() {
    const inside = this.#shown.iterations.filter((iteration) => iteration.end >= this.#view.start && iteration.start <= this.#view.end).map((iteration) => iteration.iteration);
    const which = inside.length ? `, iterations ${Math.min(...inside)} to ${Math.max(...inside)}` : "";
    write(this.#status, `showing ${stretch(this.#view.length)} from ${elapsed(this.#view.start - this.#shown.run_start, this.#view.length / 100)}${which}${this.#shown.cut ? "; too many spans, the later ones are left out" : ""}`);
  }

  #moment(x) {
    return this.#view.start + ((x - this.#layout.gutter) / (this.#layout.width - this.#layout.gutter)) * this.#view.length;
  }

  #point(event) {
    const box = this.#canvas.getBoundingClientRect();
    this.#pointer = { x: event.clientX - box.left, y: event.clientY - box.top };
    if (this.#pointer.x < this.#layout.gutter) this.#pointer = null;
    this.#paint();
    this.#describe();
  }

  #describe() {
    const lines = this.#pointer ? this.#tipLines(this.#moment(this.#pointer.x), this.#pointer.y) : null;
    this.#tip.hidden = !lines;
    if (!lines) return;
    this.#tip.replaceChildren(...lines.map((text, index) => el(index ? "span" : "strong", {}, text)));
    const left = Math.min(this.#pointer.x + 14, this.#layout.width - this.#tip.offsetWidth - 4);
    this.#tip.style.left = `${Math.max(0, left)}px`;
    this.#tip.style.top = `${this.#pointer.y + 18}px`;
  }

  #tipLines(at, y) {
    const when = elapsed(at - this.#shown.run_start, this.#view.length / 500);
    const lane = this.#shown.lanes[laneAt(this.#layout, y)];
    if (!lane) {
      const iteration = y >= this.#layout.strip ? this.#shown.iterations.find((one) => one.start <= at && one.end >= at) : null;
      if (!iteration) return null;
      const most = Object.entries(iteration.shares).sort((a, b) => b[1] - a[1]).slice(0, 3);
      return [`iteration ${iteration.iteration}: waited ${percent(iteration.mean)}`, ...most.map(([label, share]) => `${label} ${percent(share)}`)];
    }
    const slack = (this.#view.length / (this.#layout.width - this.#layout.gutter)) * 2;
    const span = lane.spans.findLast((span) => span.start <= at && span.end >= at) ?? lane.spans.findLast((span) => span.start - slack <= at && span.end + slack >= at);
    const load = lane.utilisation?.findLast(([time]) => time <= at);
    const busy = load ? [`${lane.device} ${Math.round(load[1])}%`] : [];
    if (!span) return ["waits", lane.label, when, ...busy];
    return [`${span.phase} ${stretch(span.end - span.start)}`, lane.label, `iteration ${span.iteration}`, when, ...busy];
  }

  #keys(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const acts = {
      ArrowLeft: () => this.#view.pan(-PAN), ArrowRight: () => this.#view.pan(PAN), "+": () => this.#view.zoom(ZOOM), "=": () => this.#view.zoom(ZOOM),
      "-": () => this.#view.zoom(1 / ZOOM), 0: () => this.#view.set(...this.#view.whole), Home: () => this.#view.set(this.#view.whole[0], this.#view.whole[0] + this.#view.length),
      End: () => this.#view.set(this.#view.whole[1] - this.#view.length, this.#view.whole[1]),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
    this.#changed();
  }

  #wheel(event) {
    event.preventDefault();
    const box = this.#canvas.getBoundingClientRect(), inner = this.#layout.width - this.#layout.gutter;
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.#view.pan(event.deltaX / inner);
    else this.#view.zoom(Math.exp(Math.sign(event.deltaY) * Math.min(0.5, Math.abs(event.deltaY) / 300)), Math.min(1, Math.max(0, (event.clientX - box.left - this.#layout.gutter) / inner)));
    this.#changed();
  }

  #drag(event) {
    const before = this.#fingers.get(event.pointerId);
    if (!before) return this.#point(event);
    const inner = this.#layout.width - this.#layout.gutter;
    const others = [...this.#fingers.entries()].filter(([id]) => id !== event.pointerId);
    if (others.length) {
      const other = others[0][1].x, box = this.#canvas.getBoundingClientRect();
      const apart = Math.max(20, Math.abs(event.clientX - other)), was = Math.max(20, Math.abs(before.x - other));
      this.#view.zoom(was / apart, Math.min(1, Math.max(0, ((event.clientX + other) / 2 - box.left - this.#layout.gutter) / inner)));
    } else {
      this.#view.pan((before.x - event.clientX) / inner);
    }
    this.#fingers.set(event.pointerId, { x: event.clientX });
    this.#point(event);
    this.#changed();
  }

  #lift(event) {
    this.#fingers.delete(event.pointerId);
    this.#canvas.classList.remove("dragged");
  }
}

function percent(share) {
  return `${Math.round(share * 100)}%`;
}

const handed = data("timeline-window");
const frame = document.querySelector("[data-timeline]");
if (handed && frame) new Timeline(frame, handed);

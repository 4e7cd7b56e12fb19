/* Histograms over the steps: columns are steps, rows are bins, a darker cell has a larger share of its step's values.
   The pointer or the arrow keys choose a cell, whose numbers are shown below. */

import { colour } from "../charts/colours.js";
import { el } from "../dom.js";
import { figure } from "../format.js";
import { readJson } from "../requests.js";

const HEIGHT = 160;

export class HeatMap {
  #canvas; #low; #high; #first; #last; #text; #cell = null; #marked = null;

  constructor(element) {
    this.element = element;
    this.others = []; // of the same name in other runs
    this.name = element.dataset.name;
    this.read = null;
    this.#canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": `Histograms of ${element.dataset.name} over the steps` });
    [this.#high, this.#low, this.#first, this.#last] = ["high", "low", "first", "last"].map((name) => el("span", { class: `note mono ${name}` }));
    this.#text = el("p", { class: "note", role: "status" });
    element.replaceChildren(this.#high, this.#low, this.#canvas, this.#first, this.#last, this.#text);
    this.#canvas.addEventListener("pointermove", (event) => this.#point(event));
    this.#canvas.addEventListener("pointerleave", () => this.#choose(null));
    this.#canvas.addEventListener("blur", () => this.#choose(null));
    this.#canvas.addEventListener("keydown", (event) => this.#move(event));
    new ResizeObserver(() => this.draw()).observe(this.#canvas);
    this.load();
  }

  async load() {
    try {
      this.read = await readJson(this.element.dataset.heatMap);
      for (const map of [this, ...this.others]) map.draw();
    } catch (error) {
      this.#text.textContent = `The histograms are not loaded: ${error.message}`;
    }
  }

  /* Lowest and highest value of the vertical axis; those of the other maps of its name belong to it, too. */
  get range() {
    const maps = [this, ...this.others].filter((map) => map.read?.steps.length);
    return [Math.min(...maps.map((map) => map.read.edges[0])), Math.max(...maps.map((map) => map.read.edges.at(-1)))];
  }

  /* Marks the step that the slider has chosen. */
  mark(step) {
    this.#marked = step;
    this.draw();
  }

  draw() {
    const { steps, edges } = this.read ?? { steps: [] };
    if (!steps.length || !this.#canvas.clientWidth) return;
    const scale = devicePixelRatio, width = this.#canvas.clientWidth, wide = width / steps.length;
    Object.assign(this.#canvas, { width: width * scale, height: HEIGHT * scale });
    const context = this.#canvas.getContext("2d");
    context.scale(scale, scale);
    context.imageSmoothingEnabled = false;
    const top = this.#y(edges.at(-1)), foot = this.#y(edges[0]);
    context.drawImage(this.#picture(), 0, top, width, foot - top);
    context.strokeStyle = colour("ink");
    const at = this.#marked === null || this.#marked === undefined ? -1 : steps.findLastIndex((step) => step <= this.#marked);
    if (at >= 0 && steps.length > 1) context.strokeRect(at * wide + 0.5, 0.5, Math.max(1, wide - 1), HEIGHT - 1);
    if (this.#cell) {
      const [column, bin] = this.#cell, up = this.#y(edges[bin + 1]);
      context.strokeRect(column * wide, up, wide, this.#y(edges[bin]) - up);
    }
    [this.#high.textContent, this.#low.textContent] = [figure(this.range[1]), figure(this.range[0])];
    this.#first.textContent = `step ${steps[0]}`;
    this.#last.textContent = steps.length > 1 ? `step ${steps.at(-1)}` : "";
  }

  /* One pixel per cell. */
  #picture() {
    const { steps, shares, edges } = this.read, bins = edges.length - 1;
    const picture = el("canvas", { width: steps.length, height: bins }), context = picture.getContext("2d");
    const most = Math.max(...shares.flat());
    context.fillStyle = colour("accent");
    shares.forEach((column, place) => column.forEach((share, bin) => {
      if (!share) return;
      context.globalAlpha = 0.08 + 0.92 * Math.sqrt(share / most);
      context.fillRect(place, bins - 1 - bin, 1, 1);
    }));
    return picture;
  }

  /* The pixel of a value, from the top. */
  #y(value) {
    const [low, high] = this.range;
    return HEIGHT * (1 - (value - low) / (high - low));
  }

  #point(event) {
    if (!this.read?.steps.length) return;
    const { steps, edges } = this.read, [low, high] = this.range, box = this.#canvas.getBoundingClientRect();
    const value = high - ((event.clientY - box.top) / box.height) * (high - low);
    this.#choose([Math.floor(((event.clientX - box.left) / box.width) * steps.length), edges.findLastIndex((edge) => edge <= value)]);
  }

  #move(event) {
    const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
    if (!by || !this.read?.steps.length) return;
    event.preventDefault();
    const column = this.#cell?.[0] ?? this.read.steps.length - 1, shares = this.read.shares[column];
    const bin = this.#cell?.[1] ?? shares.indexOf(Math.max(...shares));
    this.#choose(this.#cell ? [column + by[0], bin + by[1]] : [column, bin]);
  }

  #choose(cell) {
    const { steps, edges, shares, counts } = this.read ?? { steps: [] };
    const within = (value, most) => Math.min(Math.max(value, 0), most);
    this.#cell = cell && steps.length ? [within(cell[0], steps.length - 1), within(cell[1], edges.length - 2)] : null;
    this.draw();
    if (!this.#cell) return void (this.#text.textContent = "");
    const [column, bin] = this.#cell;
    this.#text.textContent = `step ${steps[column]}: ${(100 * shares[column][bin]).toFixed(1)} % of ${counts[column]} values between ${figure(edges[bin])} and ${figure(edges[bin + 1])}`;
  }
}

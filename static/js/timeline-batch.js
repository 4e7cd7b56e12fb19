/* A batch: one bar per episode on a canvas, and return against length. Both open transcripts. */

import { write } from "./announce.js";
import { addressSet } from "./address.js";
import { data, el, svg } from "./dom.js";
import { count, number } from "./format.js";
import { readJson } from "./requests.js";
import { elapsed, stretch, tickStep } from "./timeline-view.js";

const TOP = 20, WIDEST = 18, THINNEST = 3, TALL = 560;
const OLDER = [1, 0.7, 0.5, 0.35];

const page = data("batch-window");
const frame = document.querySelector("[data-batch]");

async function read() {
  const status = frame.querySelector("[data-said]");
  try {
    const batch = await readJson(page.url);
    new Bars(batch, status);
    new Scatter(batch);
  } catch (error) {
    status.textContent = `Not loaded: ${error.message}. Reload the page.`;
  }
}

const href = (episode) => (episode.transcript ? page.transcript.replace("/episodes/0/", `/episodes/${episode.transcript}/`) : null);

function open(episode) {
  if (href(episode)) location.assign(href(episode));
}

function colours(policies) {
  const probe = frame.appendChild(el("span", { hidden: true }));
  const of = (name) => {
    probe.style.color = `var(--${name})`;
    return getComputedStyle(probe).color;
  };
  const inks = Object.fromEntries(["ink", "ink-2", "ink-3", "border", "border-strong", "bg", "accent", "bad"].map((name) => [name, of(name)]));
  inks.policies = Object.fromEntries(policies.map((policy) => [policy, of(`d${page.tones[policy] ?? 0}`)]));
  probe.remove();
  return inks;
}

/* Newest version per policy, to compute the age of a token. */
function newest(batch) {
  const versionOf = {};
  for (const { stages } of batch.episodes) for (const { policy, versions } of stages) if (versions) versionOf[policy] = Math.max(versionOf[policy] ?? -Infinity, versions[1]);
  return versionOf;
}

class Bars {
  #batch; #status; #canvas; #tip; #context; #latest; #inks; #chosen = -1; #width = 0; #row = 0;

  constructor(batch, status) {
    this.#batch = batch;
    this.#status = status;
    this.#canvas = frame.querySelector("canvas");
    this.#tip = frame.querySelector("[data-tip]");
    this.#context = this.#canvas.getContext("2d");
    this.#latest = newest(batch);
    this.#inks = colours(Object.keys(this.#latest));
    legend(batch, this.#latest);
    this.#listen();
    this.#measure();
    status.textContent = `${batch.episodes.length} episodes in ${stretch(this.#whole)}`;
    frame.dataset.ready = "";
  }

  get #whole() {
    return Math.max(1e-6, this.#batch.end - this.#batch.start);
  }

  #listen() {
    const canvas = this.#canvas, { episodes } = this.#batch;
    canvas.addEventListener("pointermove", (event) => this.#choose(...this.#at(event)));
    canvas.addEventListener("pointerleave", () => this.#choose(-1));
    canvas.addEventListener("click", (event) => {
      const episode = episodes[this.#at(event)[0]];
      if (episode) open(episode);
    });
    canvas.addEventListener("keydown", (event) => {
      const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (by) this.#choose(Math.max(0, Math.min(episodes.length - 1, this.#chosen + by)));
      else if (event.key === "Enter" && episodes[this.#chosen]) open(episodes[this.#chosen]);
      else return;
      event.preventDefault();
    });
    new ResizeObserver(() => this.#measure()).observe(frame);
    document.addEventListener("themechange", () => this.#recolour());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#recolour());
  }

  #measure() {
    const { length } = this.#batch.episodes;
    this.#width = frame.clientWidth;
    this.#row = Math.max(THINNEST, Math.min(WIDEST, Math.floor(TALL / length)));
    const scale = window.devicePixelRatio || 1, height = TOP + this.#row * length + 2;
    this.#canvas.width = Math.round(this.#width * scale);
    this.#canvas.height = Math.round(height * scale);
    this.#canvas.style.height = `${height}px`;
    this.#context.setTransform(scale, 0, 0, scale, 0, 0);
    this.#paint();
  }

  #recolour() {
    this.#inks = colours(Object.keys(this.#latest));
    this.#paint();
  }

  #x(moment) {
    return ((moment - this.#batch.start) / this.#whole) * this.#width;
  }

  #box(colour, alpha, from, to, y, height) {
    if (to <= from) return;
    this.#context.globalAlpha = alpha;
    this.#context.fillStyle = colour;
    this.#context.fillRect(this.#x(from), y, Math.max(0.75, this.#x(to) - this.#x(from)), height);
    this.#context.globalAlpha = 1;
  }

  #paint() {
    this.#context.clearRect(0, 0, this.#width, this.#canvas.height);
    this.#axis();
    this.#batch.episodes.forEach((episode, index) => this.#bar(episode, index));
  }

  #bar(episode, index) {
    const { start, end } = this.#batch, inks = this.#inks, row = this.#row;
    const y = TOP + index * row, height = Math.max(2, row - (row > 5 ? 2 : 1));
    if (index === this.#chosen) this.#box(inks.accent, 0.18, start, end, y - 1, row);
    this.#box(inks["border-strong"], 0.5, episode.queued, episode.started, y + height / 3, height / 3);
    if (!episode.stages.length) this.#box(inks["ink-3"], 0.4, episode.started, episode.ended, y, height);
    for (const stage of episode.stages) {
      if (stage.kind === "generate") this.#box(inks.policies[stage.policy] ?? inks["ink-2"], this.#fade(stage), stage.start, stage.end, y, height);
      else this.#box(inks["ink-3"], 0.55, stage.start, stage.end, y, height);
    }
    if (episode.consumed !== null) this.#box(inks["border-strong"], 0.5, episode.ended, episode.consumed, y + height / 3, height / 3);
    if (episode.learnt !== null) this.#box(inks.ink, 0.75, episode.consumed, episode.learnt, y, height);
    if (episode.truncated || episode.failed) this.#box(inks.bad, 1, episode.ended, episode.ended + this.#whole / 300, y, height);
  }

  #fade({ policy, versions }) {
    const age = this.#latest[policy] - (versions?.[0] ?? this.#latest[policy]);
    return OLDER[Math.min(OLDER.length - 1, age)] || 1;
  }

  #axis() {
    const context = this.#context, inks = this.#inks, step = tickStep(this.#whole, Math.max(2, this.#width / 90));
    context.font = `11px ${getComputedStyle(document.body).fontFamily}`;
    context.textBaseline = "middle";
    for (let tick = 0; tick * step <= this.#whole; tick += 1) {
      const at = Math.round(this.#x(this.#batch.start + tick * step)) + 0.5;
      context.strokeStyle = inks.border;
      context.beginPath();
      context.moveTo(at, 16);
      context.lineTo(at, this.#canvas.height);
      context.stroke();
      context.fillStyle = inks["ink-3"];
      context.textAlign = tick === 0 ? "left" : at > this.#width - 20 ? "right" : "center";
      context.fillText(elapsed(tick * step, step), at, 8);
    }
  }

  #choose(index, at) {
    this.#chosen = index;
    this.#paint();
    const tip = this.#tip, episode = this.#batch.episodes[index];
    tip.hidden = !episode;
    if (!episode) return;
    const lines = described(episode);
    write(this.#status, lines.join(", "));
    tip.replaceChildren(...lines.map((text, place) => el(place ? "span" : "strong", {}, text)));
    tip.style.left = `${Math.max(0, Math.min((at ?? 40) + 14, this.#width - tip.offsetWidth - 4))}px`;
    tip.style.top = `${TOP + (index + 1) * this.#row + 6}px`;
    this.#canvas.classList.toggle("leads", Boolean(href(episode)));
  }

  #at(event) {
    const edges = this.#canvas.getBoundingClientRect();
    return [Math.floor((event.clientY - edges.top - TOP) / this.#row), event.clientX - edges.left];
  }
}

function described(episode) {
  const lines = [episode.name, `${page.returned} ${number(episode.episode_return)}, ${count(episode.length)} tokens, ${episode.turns} turns`];
  const spent = Object.entries(episode.seconds).filter(([, seconds]) => seconds > 0);
  const words = { queued: "queued", generate: "generating", environment: "environment", update: "waiting for the update" };
  lines.push(...spent.map(([name, seconds]) => `${words[name]} ${stretch(seconds)}`));
  if (episode.staleness !== null) lines.push(`staleness ${episode.staleness}`);
  if (episode.truncated) lines.push("truncated");
  if (episode.failed) lines.push("failed");
  return lines.concat(episode.transcript ? [] : ["no transcript stored"]);
}

/* Legend: policies by version, and the greys. */
function legend(batch, latest) {
  const versions = {};
  for (const { stages } of batch.episodes) for (const stage of stages) if (stage.versions) (versions[stage.policy] ??= new Set()).add(stage.versions[0]);
  const items = Object.keys(latest).flatMap((policy) => [...versions[policy]].sort((a, b) => b - a).slice(0, OLDER.length).map((version) => {
    const item = el("span", { class: "phase", "data-tone": page.tones[policy] ?? 0 }, `${policy} version ${version}`);
    item.style.setProperty("--fade", OLDER[Math.min(OLDER.length - 1, latest[policy] - version)]);
    return item;
  }));
  const rest = [["environment", "environment or tool"], ["queue", "queued, or before the update"], ["update", "update"]];
  document.querySelector("[data-legend]").replaceChildren(...items, ...rest.map(([stage, text]) => el("span", { class: "phase", "data-stage": stage }, text)));
}

/* Return against length, of whole episodes or of one role's answers in them. */
class Scatter {
  #batch; #root = document.querySelector("[data-scatter]"); #choice = document.querySelector("[data-role-choice]");

  constructor(batch) {
    this.#batch = batch;
    const roles = [...new Set(batch.episodes.flatMap((episode) => Object.keys(episode.roles)))];
    if (roles.length > 1) {
      this.#choice.append(el("option", { value: "" }, "episodes"), ...roles.map((role) => el("option", { value: role }, role)));
      this.#choice.value = roles.includes(page.role) ? page.role : "";
      document.querySelector("[data-of]").hidden = false;
      this.#choice.addEventListener("change", () => {
        addressSet({ role: this.#choice.value });
        this.#plot();
      });
    }
    this.#plot();
  }

  #points() {
    const role = this.#choice.value, { episodes } = this.#batch;
    if (!role) return episodes.map((episode) => ({ episode, length: episode.length, reward: Number(episode.episode_return), cut: episode.truncated }));
    return episodes.filter((episode) => episode.roles[role]).map((episode) => {
      const share = episode.roles[role];
      return { episode, length: share.tokens, reward: Number(share.reward), cut: share.truncated };
    });
  }

  #plot() {
    const shown = this.#points().filter((point) => Number.isFinite(point.reward));
    const W = 320, H = 240, left = 40, bottom = 28;
    const most = Math.max(1, ...shown.map((point) => point.length));
    const low = Math.min(0, ...shown.map((point) => point.reward)), high = Math.max(low + 1e-6, ...shown.map((point) => point.reward));
    const x = (length) => left + (length / most) * (W - left - 10), y = (reward) => H - bottom - ((reward - low) / (high - low)) * (H - bottom - 12);
    const text = (attributes, content) => svg("text", attributes, content);
    const axes = [
      svg("line", { x1: left, y1: H - bottom, x2: W - 6, y2: H - bottom }), svg("line", { x1: left, y1: 6, x2: left, y2: H - bottom }),
      text({ x: left, y: H - 12, "text-anchor": "middle" }, "0"), text({ x: W - 10, y: H - 12, "text-anchor": "end" }, count(most)),
      text({ x: (left + W) / 2, y: H - 4, "text-anchor": "middle" }, "response tokens"),
      text({ x: left - 5, y: y(high) + 4, "text-anchor": "end" }, number(high)), text({ x: left - 5, y: y(low) + 2, "text-anchor": "end" }, number(low)),
    ];
    const figure = this.#choice.value ? "reward" : page.returned;  // of a role, or of the episode
    const marks = shown.map(({ episode, length, reward, cut }) => {
      const words = `${episode.name}: ${figure} ${number(reward)}, ${count(length)} tokens${cut ? ", truncated" : ""}`;
      const point = [x(length), y(reward)];
      const mark = cut
        ? svg("path", { class: "cut", d: `M${point[0] - 4} ${point[1] - 4} l8 8 m0 -8 l-8 8` })
        : svg("circle", { cx: point[0], cy: point[1], r: 4 });
      mark.append(svg("title", {}, words));
      return href(episode) ? svg("a", { href: href(episode), "aria-label": words }, mark) : mark;
    });
    this.#root.replaceChildren(svg("svg", { viewBox: `0 0 ${W} ${H}`, role: "group", "aria-label": `${figure[0].toUpperCase()}${figure.slice(1)} against response tokens` }, axes, marks));
  }
}

if (page && frame) read();

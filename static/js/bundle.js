/* The page of a bundle (troupe_client/bundles/writing.py): runs in one file, without a server. */

import { drawn } from "./boards/registry.js";
import { forgetColours } from "./charts/colours.js";
import { layoutOf } from "./charts/layout.js";
import { tracesOf } from "./charts/traces.js";
import { el, svg } from "./dom.js";
import { number } from "./format.js";

const VIEW = { x: "step", smooth: 0, under: "raw" };
const MOST_LISTED = 100;
const PLOTLY = { displayModeBar: false, responsive: true };
const TYPES = { iVBO: "image/png", "/9j/": "image/jpeg", R0lG: "image/gif" }; // first letters of a file in base64
const FIRST = ["eval/success", "eval/return", "train/return"];

async function read() {
  const bytes = Uint8Array.from(atob(document.getElementById("bundle").textContent), (letter) => letter.charCodeAt(0));
  return JSON.parse(await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text());
}

function section(title, ...children) {
  return el("section", { class: "bundle-part", "aria-label": title }, el("h2", {}, title), ...children);
}

function table({ runs }) {
  const rows = runs.map(({ run, episodes, tone }) => el("tr", {}, ...[
    [el("span", { class: "dot", "data-tone": tone }), ` ${run.name}`], run.id, run.state, `${run.iteration} of ${run.iterations || "?"}`, episodes.length, run.tags.join(", "),
  ].map((cell) => el("td", { class: "break" }, cell))));
  const heads = ["run", "id", "state", "steps", "episodes", "tags"].map((name) => el("th", { scope: "col" }, name));
  return el("div", { class: "scroll-x", tabindex: 0 }, el("table", {}, el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...rows)));
}

/* A chart per metric, drawn when it is visible, and again with the colours of another theme. */
function curves({ runs }) {
  const rank = (name) => (FIRST.indexOf(name) + 1 || FIRST.length + 1);
  const names = [...new Set(runs.flatMap(({ metrics }) => Object.keys(metrics)))].sort((one, two) => rank(one) - rank(two) || one.localeCompare(two));
  const draw = (plot, name) => {
    const traces = runs.filter(({ metrics }) => Object.hasOwn(metrics, name)).flatMap(({ run, metrics, tone }) => {
      const { attempts, steps, times, values } = metrics[name];
      return tracesOf({ tone, label: run.name, key: name }, { attempts, steps, times, values: values.map(Number) }, { x: (step) => step }, VIEW);
    });
    window.Plotly.react(plot, traces, layoutOf(VIEW, null, null), PLOTLY);
  };
  const seen = new IntersectionObserver((entries) => entries.forEach(({ isIntersecting, target }) => isIntersecting && draw(target, target.dataset.metric)));
  const charts = names.map((name) => {
    const plot = el("div", { class: "plot", "data-metric": name });
    seen.observe(plot);
    return el("article", { class: "panel chart" }, el("header", {}, el("h3", { title: name }, name)), plot);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    forgetColours();
    for (const plot of document.querySelectorAll(".js-plotly-plot")) draw(plot, plot.dataset.metric);
  });
  return section("Curves", search("Metrics", (words) => charts.forEach((chart, index) => { chart.hidden = !words.every((word) => names[index].toLowerCase().includes(word)); })),
    el("div", { class: "charts" }, ...charts));
}

/* The values of each name at one step, with a slider if there are several steps. */
function media({ runs }) {
  const panels = runs.flatMap(({ run, media: logged = [], tone }) => Object.entries(Object.groupBy(logged, ({ name }) => name)).map(([name, some]) => {
    const calls = some.toSorted((one, two) => one.step - two.step), last = calls.length - 1;
    const values = el("div", { class: "media-values" }), note = el("span", { class: "note", role: "status" });
    const slider = el("input", { type: "range", min: 0, max: last, value: last, "aria-label": `Step of ${name}`, hidden: !last });
    const show = () => {
      note.textContent = `step ${calls[slider.value].step}`;
      values.replaceChildren(...calls[slider.value].values.map(figure));
    };
    slider.addEventListener("input", show);
    show();
    return { name: name.toLowerCase(), panel: el("article", { class: "panel media" }, el("header", {}, el("span", { class: "dot", "data-tone": tone }), el("h3", { title: run.name }, ` ${name}`), note), slider, values) };
  }));
  if (!panels.length) return "";
  return section("Media", search("Media", (words) => panels.forEach(({ name, panel }) => { panel.hidden = !words.every((word) => name.includes(word)); })), ...panels.map(({ panel }) => panel));
}

function figure(value) {
  const { kind, caption } = value;
  return el("figure", { class: `media-${kind}` }, FIGURES[kind](value), caption && el("figcaption", { class: "note" }, caption));
}

const FIGURES = {
  image: ({ data, caption, width }) => el("img", { src: `data:${TYPES[data.slice(0, 4)] ?? "image/webp"};base64,${data}`, alt: caption, class: width && width < 160 ? "small" : null }),
  text: ({ text }) => el("pre", { class: "panel scroll-x", tabindex: 0 }, text),
  table: ({ columns, rows }) => el("div", { class: "scroll-x", tabindex: 0 }, el("table", {}, el("thead", {}, el("tr", {}, ...columns.map((name) => el("th", { scope: "col" }, name)))),
    el("tbody", {}, ...rows.slice(0, MOST_LISTED).map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, cell ?? "–")))))),
  rows.length > MOST_LISTED && el("p", { class: "note" }, `${rows.length} rows, the first ${MOST_LISTED} are shown`)),
  histogram({ counts, edges }) {
    const low = edges[0], wide = edges.at(-1) - low, high = Math.max(...counts) || 1;
    const bars = counts.map((count, index) => svg("rect", { x: ((edges[index] - low) / wide) * 100, y: 40 - (count / high) * 40, width: ((edges[index + 1] - edges[index]) / wide) * 100, height: (count / high) * 40 },
      svg("title", {}, `${number(edges[index])} to ${number(edges[index + 1])}: ${number(count)}`)));
    return el("div", {}, svg("svg", { viewBox: "0 0 100 40", preserveAspectRatio: "none", role: "img", "aria-label": `${counts.length} bins from ${number(low)} to ${number(edges.at(-1))}` }, ...bars),
      el("p", { class: "note" }, `${number(low)} to ${number(edges.at(-1))}`));
  },
};

/* `found` is called with the words in lower case after each input. */
function search(label, found) {
  const input = el("input", { type: "search", placeholder: "Search", "aria-label": `Search: ${label}` });
  input.addEventListener("input", () => found(input.value.toLowerCase().split(/\s+/).filter(Boolean)));
  return el("div", { class: "bundle-search" }, input);
}

function transcripts({ runs }) {
  const all = runs.flatMap(({ run, episodes, tone }) => episodes.map((episode) => ({ run, episode, tone, text: null })));
  const list = el("ol", { class: "bundle-list" }), reader = el("div", { class: "bundle-reader", tabindex: -1 }), note = el("p", { class: "note", role: "status" });
  const open = (entry) => {
    reader.replaceChildren(...transcript(entry));
    reader.focus();
  };
  const show = (words) => {
    const hits = all.filter((entry) => words.every((word) => (entry.text ??= textOf(entry.episode)).includes(word)));
    note.textContent = `${hits.length} of ${all.length} episodes${hits.length > MOST_LISTED ? `, the first ${MOST_LISTED} are listed` : ""}`;
    list.replaceChildren(...hits.slice(0, MOST_LISTED).map((entry) => {
      const { episode, tone } = entry;
      const button = el("button", { class: "button plain", type: "button" }, el("span", { class: "dot", "data-tone": tone }),
        ` ${episode.iteration} ${episode.kind} · ${episode.title} · ${episode.outcome} · ${number(episode.episode_return)}`);
      button.addEventListener("click", () => open(entry));
      return el("li", {}, button);
    }));
  };
  show([]);
  return section("Transcripts", search("Transcripts", show), note, el("div", { class: "bundle-columns" }, list, reader));
}

function textOf({ title, outcome, task, error, turns }) {
  const texts = (turns ?? []).flatMap((turn) => [turn.role, ...turn.messages.map(({ content }) => content), ...turn.candidates.map(({ text }) => text)]);
  return [title, outcome, task, error, ...texts].join("\n").toLowerCase();
}

function transcript({ run, episode }) {
  const turns = episode.turns ?? [], roles = Object.keys(run.config.team?.roles ?? {});
  const tones = Object.fromEntries(roles.map((role, index) => [role, (index % 6) + 1])), boards = [...turns.map(({ board }) => board), episode.final_board];
  const board = (index, note) => boards[index] && el("div", { class: "bundle-board" }, drawn(boards[index], boards.slice(0, index + 1), { note, tones }).drawing);
  return [
    el("h3", {}, `${run.name}, ${episode.name}: ${episode.title}`),
    el("p", { class: "soft" }, `${episode.outcome}, return ${number(episode.episode_return)}${episode.error ? `. ${episode.error}` : ""}`),
    ...turns.map((turn, index) => el("article", { class: "turn", "data-tone": tones[turn.role] ?? 0 },
      el("header", {}, el("strong", { class: "tone" }, `#${index + 1} ${turn.role}`), el("span", { class: "note" }, turn.policy)),
      el("details", {}, el("summary", { class: "note" }, "Prompt"), el("div", { class: "saw" }, ...turn.messages.map(({ role, content }) => el("p", {}, el("span", { class: "who" }, role), content)))),
      ...turn.candidates.map((candidate, nth) => answer(candidate, nth === turn.executed)), board(index, `before #${index + 1}`))),
    turns.length ? board(turns.length, "at the end") : el("p", { class: "note" }, "Only the facts of this episode are stored, not its turns."),
    ...(episode.notes ?? []).map(({ author, label, text }) => el("p", { class: "note" }, `${author}: ${label} ${text}`)),
  ].filter(Boolean);
}

function answer({ text, reward, advantage }, executed) {
  const figures = `reward ${number(reward)}${advantage === undefined || advantage === null ? "" : `, advantage ${number(advantage)}`}`;
  return el("div", { class: executed ? "bundle-answer executed" : "bundle-answer" }, el("span", { class: "words" }, text), el("span", { class: "note" }, executed ? `${figures}, executed` : figures));
}

function findings({ runs }) {
  const items = runs.flatMap(({ run, findings: some }) => some.map(({ title, severity, state, cause, remedy }) => el("li", {},
    el("strong", {}, title), ` (${run.name}, ${severity}, ${state})`, el("p", { class: "soft" }, `${cause} ${remedy}`))));
  return section("Findings", items.length ? el("ul", {}, ...items) : el("p", { class: "note" }, "No findings."));
}

function configs({ runs }) {
  return section("Config", ...runs.map(({ run }) => el("details", {}, el("summary", {}, run.name), el("pre", { class: "panel scroll-x", tabindex: 0 }, JSON.stringify(run.config, null, 2)))));
}

const bundle = await read();
bundle.runs.forEach((one, index) => { one.tone = `r${(index % 12) + 1}`; });
document.getElementById("page").replaceChildren(el("h1", {}, document.title), table(bundle), ...[curves, media, transcripts, findings, configs].map((part) => part(bundle)));

/* Tables of transcripts: new ones are added at the top. The stream requests those that match its filters from the server. */

import { el } from "../dom.js";
import { count, fixed } from "../format.js";

export class Episodes {
  #run;

  constructor(run) {
    this.#run = run;
  }

  delta(message) {
    const table = document.querySelector("[data-episodes]");
    tally(message.episodes.length);
    if (!table || "stream" in table.dataset) return;
    const body = table.querySelector("tbody");
    for (const episode of message.episodes.slice(-Number(table.dataset.most))) {
      if (document.getElementById(`episode-${episode.id}`)) continue;
      body.prepend(row(this.#run, episode, table.dataset));
    }
    while (body.rows.length > Number(table.dataset.most)) body.lastElementChild.remove();
    if (body.rows.length) show();
  }
}

function show() {
  document.querySelector("[data-episodes]").hidden = false;
  const empty = document.querySelector("[data-no-episodes]");
  if (empty) empty.hidden = true;
}

function tally(more) {
  for (const mark of document.querySelectorAll("[data-episode-count]")) {
    mark.dataset.episodeCount = Number(mark.dataset.episodeCount) + more;
    mark.textContent = count(Number(mark.dataset.episodeCount));
  }
}

function outcome(episode) {
  if (episode.failed) return "failed";
  return episode.success ? "success" : "unsolved";
}

const KINDS = { train: "training", eval: "greedy", eval_sampled: "sampled" };

/* As quarter_tone of webapp/common/templatetags/troupe.py. */
function quarter(episode, bounds) {
  return ["lowest", "soft", "", "highest"][bounds.filter((bound) => episode.episode_return >= bound).length];
}

function row(runId, episode, { step, return: returned, quarters }) {
  const kind = outcome(episode);
  const text = kind === "failed" ? `error: ${episode.error || episode.outcome}` : episode.outcome;
  const bounds = quarters && kind !== "failed" ? quarters.split(" ").map(Number) : null;
  const tone = bounds ? quarter(episode, bounds) : kind === "failed" ? "bad" : kind === "success" ? "good" : "soft";
  return el("tr", { class: "row fresh", id: `episode-${episode.id}` },
    el("td", { class: "lead" }, el("a", { class: "row-link mono", href: `/runs/${runId}/episodes/${episode.id}/` }, short(episode.name))),
    el("td", { class: "soft nowrap", "data-label": "play" }, (KINDS[episode.kind] ?? episode.kind) + (episode.probe ? ", probe" : "")),
    el("td", { class: "break", "data-label": "task" }, episode.title),
    el("td", { class: `break ${tone}`, "data-label": "outcome" }, text, episode.truncated ? el("span", { class: "badge warn" }, "truncated") : null),
    el("td", { class: "num", "data-label": step }, count(episode.turn_count)),
    el("td", { class: "num tokens", "data-label": "tokens" }, count(episode.tokens)),
    el("td", { class: `num ${bounds ? tone : ""}`, "data-label": returned }, fixed(Number(episode.episode_return), 2)),
  );
}

/* "1-89-train-31" is read as 89·31. */
function short(name) {
  const parts = name.split("-");
  return parts.length === 4 ? `${parts[1]}·${parts[3]}` : name;
}

/* The tail of the log: new lines at the bottom, followed while the end is visible. */

import { el } from "../dom.js";

const MOST = 2000;
const LEVELS = ["debug", "info", "warning", "error"];

export class Logs {
  #seen = new Set([...(list()?.children ?? [])].map((line) => line.dataset.line));

  constructor() {
    const target = location.hash === "#traceback" && document.getElementById("traceback");
    if (target) target.scrollIntoView({ block: "start" });
    else this.again();
  }

  delta(message) {
    const lines = list();
    if (!lines) return;
    const atEnd = lines.scrollHeight - lines.scrollTop - lines.clientHeight < 40;
    for (const line of message.logs) {
      const mark = `${new Date(line.time).getTime()} ${line.source} ${line.message}`;
      if (this.#seen.has(mark) || !fits(line, lines.dataset)) continue;
      this.#seen.add(mark);
      lines.append(drawn(line, mark));
    }
    while (lines.children.length > MOST) lines.firstElementChild.remove();
    if (lines.children.length) document.querySelector("[data-no-logs]")?.remove();
    if (atEnd) this.again();
  }

  again() {
    list()?.scrollTo(0, list().scrollHeight);
  }
}

function list() {
  return document.querySelector("[data-logs]");
}

function fits(line, wanted) {
  if (wanted.level && LEVELS.indexOf(line.level) < LEVELS.indexOf(wanted.level)) return false;
  return !wanted.search || `${line.source} ${line.message}`.toLowerCase().includes(wanted.search.toLowerCase());
}

function drawn(line, mark) {
  return el("li", { class: `log ${line.level}`, "data-line": mark },
    el("time", { datetime: line.time }, new Date(line.time).toISOString().slice(11, 19)),
    el("span", { class: "level" }, line.level), el("span", { class: "source" }, line.source), el("span", { class: "text" }, line.message));
}

/* The tail of the log: new lines at the bottom, followed while the end is visible. */

import { el } from "../dom.js";

const MOST = 2000;
const LEVELS = ["debug", "info", "warning", "error"];

export function logs() {
  const root = () => document.querySelector("[data-logs]");
  if (!root()) return null;
  const seen = new Set([...root().children].map((line) => line.dataset.line));
  follow(root());
  return {
    delta(message) {
      const list = root(), atEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 40;
      for (const line of message.logs) {
        const mark = `${new Date(line.time).getTime()} ${line.source} ${line.message}`;
        if (seen.has(mark) || !fits(line, list.dataset)) continue;
        seen.add(mark);
        list.append(drawn(line, mark));
      }
      while (list.children.length > MOST) list.firstElementChild.remove();
      if (list.children.length) document.querySelector("[data-no-logs]")?.remove();
      if (atEnd) follow(list);
    },
    again: () => follow(root()),
  };
}

function follow(list) {
  list.scrollTop = list.scrollHeight;
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

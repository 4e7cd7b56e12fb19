/* Marks of events on a chart: a line each, and a symbol at the top with a description on hover. */

import { colour } from "./colours.js";
import { count } from "../format.js";

const SIGNS = { checkpoint: "◆", attempt: "↻", edit: "✎", finding: "!", note: "¶" };
const PLAIN = 60;
const LINE_HEIGHT = 12;
const MARGIN = 0.05; // of the extent of the data, on either side

function markColour(mark) {
  if (mark.kind === "finding") return colour(mark.strong ? "bad" : "warn");
  return colour({ checkpoint: mark.strong ? "ink-3" : "border-strong", attempt: "warn", edit: "t4", note: "accent" }[mark.kind]);
}

/* Plotly interprets some markup in labels. */
export function escapeHtml(text) {
  return String(text).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

/* Shapes and annotations of a Plotly layout. `position`: a mark's x, or null if it has none on this axis. If there are very many plain
   checkpoints, lines are drawn for some of them; special ones always have a line. On a logarithmic axis Plotly expects annotations
   at the logarithm, shapes at the value. `extent`: the first and last x of the data; marks far outside would stretch the axis, and are
   left out. */
export function markedLayout(marks, position, logx, extent) {
  const plain = marks.filter((mark) => mark.kind === "checkpoint" && !mark.strong).length;
  const stride = Math.ceil(plain / PLAIN);
  const shapes = [], annotations = [], stacks = new Map();
  let seen = 0;
  for (const mark of marks) {
    const x = position(mark);
    if (x === null || (logx && x <= 0) || isFar(x, extent)) continue;
    const signed = mark.kind !== "checkpoint" || mark.strong;
    if (!signed && seen++ % stride) continue;
    shapes.push(line(x, mark, signed));
    if (!signed) continue;
    const above = stacks.get(String(x)) ?? 0;
    stacks.set(String(x), above + 1);
    annotations.push(sign(logx ? Math.log10(x) : x, mark, above));
  }
  return { shapes, annotations };
}

function isFar(x, [first, last]) {
  const margin = MARGIN * (last - first);
  return x < first - margin || x > last + margin;
}

function line(x, mark, signed) {
  return {
    type: "line", xref: "x", yref: "paper", x0: x, x1: x, y0: 0, y1: 1, layer: "below",
    line: { color: markColour(mark), width: 1, dash: signed ? "dash" : "dot" },
  };
}

function sign(x, mark, above) {
  const where = mark.step === null ? "" : `step ${count(mark.step)}: `;
  return {
    x, y: 1, xref: "x", yref: "paper", text: SIGNS[mark.kind], showarrow: false, xanchor: "center", yanchor: "top", yshift: -above * LINE_HEIGHT,
    font: { size: 11, color: markColour(mark) }, bgcolor: colour("panel"), borderpad: 0, captureevents: true, name: mark.link,
    hovertext: escapeHtml(`${where}${mark.title}`) + (mark.detail ? `<br>${escapeHtml(mark.detail)}` : ""),
    hoverlabel: { bgcolor: colour("panel"), bordercolor: markColour(mark), font: { size: 11, color: colour("ink") } },
  };
}

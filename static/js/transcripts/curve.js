/* The share of kept episodes that match a query, by kind and iteration, with its interval. */

import { colour, faint, forgetColours, toneColour } from "../charts/colours.js";
import { layoutOf } from "../charts/layout.js";
import { plotly } from "../charts/plotly.js";
import { data } from "../dom.js";

const CONFIG = { displayModeBar: false, responsive: true, showTips: false };
const { kinds, width } = data("query-curve"), plot = document.querySelector(".curve-plot");

function traces() {
  return kinds.flatMap(({ label, points }, index) => {
    const tone = toneColour(index), x = points.map(({ first, last }) => (first + last) / 2);
    const low = points.map((point) => point.low), high = points.map((point) => point.high);
    return [
      {
        type: "scatter", mode: "lines", x: [...x, ...x.toReversed()], y: [...high, ...low.toReversed()], fill: "toself",
        fillcolor: faint(tone, 0.14), line: { width: 0 }, hoverinfo: "skip", showlegend: false,
      },
      {
        type: "scatter", mode: "lines+markers", x, y: points.map(({ share }) => share), name: label, showlegend: false,
        line: { color: tone, width: 2 }, marker: { size: 6, color: tone },
        customdata: points.map((point) => [text(point), point.address]),
        hovertemplate: `${label} %{customdata[0]}<extra></extra>`, hoverlabel: { font: { color: tone } },
      },
    ];
  });
}

function text({ first, last, matching, of, share, low, high }) {
  const span = width > 1 ? ` · iterations ${first}–${last}` : "";
  return `${share.toFixed(2)} [${low.toFixed(2)}, ${high.toFixed(2)}] · ${matching} of ${of}${span}`;
}

async function draw() {
  const library = await plotly();
  plot.querySelector(".wait")?.remove();
  const layout = layoutOf({ x: "step", logx: false, logy: false }, null, [-0.02, 1.02]);
  layout.xaxis.title = { text: "iteration", font: { size: 11, color: colour("ink-3") } };
  layout.margin.b = 38;
  const first = !plot.classList.contains("js-plotly-plot");
  await library.react(plot, traces(), layout, CONFIG);
  if (first) plot.on("plotly_click", ({ points }) => {
    const point = points.find(({ customdata }) => customdata);
    if (point) location.assign(point.customdata[1]);
  });
}

function redraw() {
  forgetColours();
  draw();
}

draw();
document.addEventListener("themechange", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

/* A chart as a file: PNG and SVG as displayed, CSV with every stored point. */

import { el } from "../dom.js";
import { colour } from "./colours.js";
import { escapeHtml } from "./marks.js";

const SIZE = { width: 1000, height: 520 };

/* Opens or closes the menu below the button. */
export function saveMenu(button, { plot, title, unit, name, csv }) {
  const there = button.parentElement.querySelector(".sheet");
  button.setAttribute("aria-expanded", String(!there));
  if (there) return there.remove();
  const choose = (format) => el("button", { class: "button small", type: "button", "data-format": format }, format.toUpperCase());
  const sheet = el("div", { class: "sheet" }, choose("png"), choose("svg"), csv ? el("a", { class: "button small", href: csv, download: true }, "CSV") : null);
  sheet.addEventListener("click", async ({ target }) => {
    const format = target.dataset.format;
    if (format) download(await picture(plot, format, title, unit), `${name}.${format}`);
    sheet.remove();
    button.setAttribute("aria-expanded", "false");
    button.focus();
  });
  button.parentElement.append(sheet);
  sheet.firstElementChild.focus();
}

function picture(plot, format, title, unit) {
  const layout = {
    ...plot.layout, ...SIZE, autosize: false, showlegend: true, paper_bgcolor: colour("panel"), plot_bgcolor: colour("panel"),
    title: { text: escapeHtml(unit ? `${title} (${unit})` : title), font: { size: 15, color: colour("ink") } }, margin: { l: 60, r: 20, t: 50, b: 40 },
  };
  const data = plot.data.map((trace) => ({ ...trace, showlegend: Boolean(trace.meta) }));
  return Plotly.toImage({ data, layout }, { format, ...SIZE, scale: format === "png" ? 2 : 1 });
}

function download(address, name) {
  el("a", { href: address, download: name }).click();
}

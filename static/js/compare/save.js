/* The save buttons of group charts: a picture, and the numbers where the button has their address. */

import { saveMenu } from "../charts/saving.js";

/* `prefix`: begin of the file's name. */
export function saveCharts(charts, prefix) {
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-save]"), section = target.closest(".compared");
    const chart = button && charts.find(({ element }) => section?.contains(element));
    if (!chart?.plot.data) return;
    const key = button.dataset.save;
    saveMenu(button, { plot: chart.plot, title: key, unit: "", name: `${prefix}-${key.replace(/[^\w.-]+/g, "-")}`, csv: button.dataset.csv });
  });
}

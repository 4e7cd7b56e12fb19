/* The definitions of panels in the address: a JSON list without the fields that have their default. */

import { addressGet, addressSet } from "../address.js";
import { readJson } from "../requests.js";

const MOST_MATCHES = 200;

const DEFAULTS = { metrics: [], pattern: "", title: "", x: "", logx: false, logy: false, smooth: null, width: 1, height: "s", pinned: false };

/* The panels of the address; if it names neither panels nor runs, those used last in this browser (`kept`: their key); otherwise `standard`. */
export function panelsRead(standard, kept) {
  const text = addressGet("panels", "") || (!addressGet("shown", "") && localStorage.getItem(kept)) || "";
  try {
    const list = text ? JSON.parse(text) : standard;
    return (Array.isArray(list) ? list : standard).map(whole);
  } catch {
    return standard.map(whole);
  }
}

export function panelsWrite(panels, standard, kept) {
  const text = JSON.stringify(panels.map(brief));
  const same = text === JSON.stringify(standard.map((panel) => brief(whole(panel))));
  if (same) localStorage.removeItem(kept);
  else localStorage.setItem(kept, text);
  addressSet({ panels: same ? "" : text });
}

export function whole(panel) {
  return { ...DEFAULTS, ...panel };
}

function brief(panel) {
  return Object.fromEntries(Object.keys(DEFAULTS).filter((name) => JSON.stringify(panel[name]) !== JSON.stringify(DEFAULTS[name])).map((name) => [name, panel[name]]));
}

/* The metrics of a panel: those named, then the known ones that match its pattern; at most data.mostMetrics. */
export async function metricsOf(panel, data) {
  return [...new Set([...panel.metrics, ...(await matched(panel.pattern, data))])].slice(0, data.mostMetrics);
}

/* The known metrics that match a regular expression. Throws SyntaxError. */
function matching(pattern, keys) {
  if (!pattern) return [];
  const expression = new RegExp(pattern);
  return keys.filter((key) => expression.test(key));
}

export function titleOf(panel) {
  return panel.title || [...panel.metrics, panel.pattern].filter(Boolean).join(", ") || "chart";
}

/* The known metrics that match a regular expression: of a run with many metrics (`search`: its address), the first that the server finds. */
export async function matched(pattern, { keys, search }) {
  if (!pattern || !search) return matching(pattern, keys);
  const { keys: rows } = await readJson(`${search}?${new URLSearchParams({ pattern, limit: MOST_MATCHES })}`);
  return rows.map((row) => row.key);
}

/* Those of the names that no shown run reports. */
export async function unreported(names, { keys, search }) {
  const missing = names.filter((name) => !keys.includes(name));
  if (!missing.length || !search) return missing;
  const { series } = await readJson(`${search}?${new URLSearchParams({ keys: missing.join(","), points: 1 })}`);
  return missing.filter((name) => !(name in series));
}

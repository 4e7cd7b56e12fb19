/* Measures for colouring tokens. A measure has `of` (data, index) → its value or undefined, and `heat` → -1 … 1: intensity, in one colour above 0
   and another below. */

import { fixed } from "../format.js";

const most = (value) => Math.max(-1, Math.min(1, value));
const from = (name) => (data, index) => (data[name]?.length ? Number(data[name][index]) : undefined);

export const MEASURES = {
  logprobs: { label: "log-probability", head: "logprob", unit: "nats", of: from("logprobs"), heat: (value) => -Math.min(1, -value / 3) },
  advantage: { label: "advantage", head: "advantage", of: ({ advantage }) => (advantage === null || advantage === undefined ? undefined : Number(advantage)), heat: (value) => most(value / 2) },
  ratios: { label: "probability ratio", head: "ratio", of: from("ratios"), heat: (value) => most((value - 1) / 0.2) },
  entropies: { label: "entropy", head: "entropy", unit: "nats", of: from("entropies"), heat: (value) => -Math.min(1, value / 1.5) },
  mismatch: { label: "train–inference mismatch", head: "mismatch", unit: "nats", of: from("mismatch"), heat: (value) => most(value / 0.1) },
  training_logprobs: { label: "learner’s log-probability", head: "learner", unit: "nats", of: from("training_logprobs"), heat: (value) => -Math.min(1, -value / 3) },
  masks: { label: "mask", head: "mask", digits: 0, of: from("masks"), heat: (value) => (value ? 0.25 : 0), says: (value) => (value ? "trained on" : "masked out") },
  versions: { label: "policy version", head: "version", digits: 0, of: from("versions"), heat: (value, { newest }) => -Math.min(1, (newest - value) / 4) },
};

/* Names of the measures available for an answer. */
export function known(data) {
  return Object.keys(MEASURES).filter((name) => MEASURES[name].of(data, 0) !== undefined);
}

/* A value of a measure as text. */
export function spoken(measure, value) {
  if (measure.says) return measure.says(value);
  return fixed(value, measure.digits ?? 3);
}

/* Spaces, line breaks and control characters are shown as symbols, so that every token is visible and none changes the text direction. */
export function visible(token) {
  const shown = token.replaceAll("\n", "⏎").replaceAll("\t", "⇥").replace(/[\p{Cc}\p{Cf}]/gu, (character) => `‹${character.codePointAt(0).toString(16).padStart(4, "0")}›`);
  return shown.replace(/^ | $/g, "·") || "∅";
}

/* The range of a measure over answers, and the style of tokens that are not trained on. */
export function scaleText(by, answers) {
  const measure = MEASURES[by];
  const values = measure ? answers.flatMap((data) => (data.tokens ?? []).map((_, index) => measure.of(data, index))).filter(Number.isFinite) : [];
  const low = values.reduce((one, other) => Math.min(one, other), Infinity), high = values.reduce((one, other) => Math.max(one, other), -Infinity);
  const unit = measure?.unit ? ` ${measure.unit}` : "";
  const parts = [];
  if (values.length && low === high) parts.push(`${measure.label}: ${spoken(measure, low)}${unit}`);
  else if (values.length && !measure.says) parts.push(`${measure.label}: ${spoken(measure, low)} to ${spoken(measure, high)}${unit}`);
  if (answers.some((data) => data.masks?.includes(0))) parts.push("dashed: masked out, not trained on");
  if (answers.length && answers.every((data) => data.masks?.length && !data.masks.includes(1))) parts.push("no token here is in the loss");
  return parts.join(" · ");
}

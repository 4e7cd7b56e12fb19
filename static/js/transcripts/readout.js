/* The recorded values of one token as terms of a list. */

import { el } from "../dom.js";
import { count, fixed } from "../format.js";
import { MEASURES, known, spoken, visible } from "./measures.js";

export function readout(data, index, facts = []) {
  const rows = [["token", visible(data.tokens?.[index] ?? "")], ...facts, ["place", `${count(index + 1)} of ${count(data.count)}`], ["id", String(data.token_ids?.[index] ?? "–")]];
  for (const name of known(data)) rows.push([MEASURES[name].head, spoken(MEASURES[name], MEASURES[name].of(data, index))]);
  if (data.logprobs?.length) rows.push(["probability", fixed(Math.exp(Number(data.logprobs[index])), 3)]);
  return rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", { class: "num" }, value)));
}

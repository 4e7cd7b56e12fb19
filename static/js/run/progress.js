/* The progress of a run in words; webapp/common/templatetags/troupe.py does the same on the server. */

import { count } from "../format.js";

/* "step" for a custom program, which counts its steps; "iteration" for a trainer of Troupe. */
export function counted(run) {
  return run.source === "client" ? "step" : "iteration";
}

/* "12 of 40"; "step 12" if the total is not known; nothing before the first step. */
export function progress(run) {
  if (run.iterations) return `${count(run.iteration)} of ${count(run.iterations)}`;
  return run.iteration ? `${counted(run)} ${count(run.iteration)}` : "";
}

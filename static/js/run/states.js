/* States of a run in which it does nothing until a person resumes it. */
export const ENDED = ["finished", "stopped", "failed", "paused"];

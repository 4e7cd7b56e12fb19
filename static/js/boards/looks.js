/* Colours of agents on a board: a shade of their role's colour per agent. */

const SHADES = 4; // in transcript.css
const TONES = 6; // roles' colours in tokens.css

/* (name) → {role, dress} of an agent or of a role itself, where `dress` is attributes; null for a name that is neither. `roles`: agents by role,
   as in training_core/boards.py; `tones`: colours by role, of the page. */
export function looks(roles, tones) {
  const looks = new Map(Object.entries(tones).map(([role, tone]) => [role, { role, dress: { "data-tone": tone } }]));
  Object.entries(roles ?? {}).forEach(([role, agents], index) => {
    const tone = Object.hasOwn(tones, role) ? tones[role] : (index % TONES) + 1;
    looks.set(role, { role, dress: { "data-tone": tone } });
    if (Array.isArray(agents)) agents.forEach((agent, number) => looks.set(String(agent), { role, dress: { "data-tone": tone, "data-shade": number % SHADES } }));
  });
  return (name) => looks.get(name) ?? null;
}

/* A label that fits on a disc: "agent_2" is 2, "north" is no. */
export function short(name) {
  return name.match(/_(\d{1,3})$/)?.[1] ?? name.slice(0, 2);
}

/* A continuous plane with agents, landmarks and obstacles, as in multi-particle environments. y points up. */

import { svg } from "../dom.js";
import { fixed } from "../format.js";
import { legendItem, list, picture, real, way } from "./shapes.js";

const SIDE = 100; // width of the drawing in its units
const KINDS = ["agent", "landmark", "obstacle"];

export const plane = {
  draw(board, past, { note, look }) {
    const [left, bottom, right, top] = list(board.bounds, "bounds").map((value) => real(value, "bounds"));
    if (!(right > left && top > bottom)) throw new Error("bounds are empty");
    const scale = SIDE / (right - left), height = (top - bottom) * scale;
    if (height > 20 * SIDE || height < SIDE / 20) throw new Error("bounds are too narrow");
    const at = ({ x, y }) => [(real(x, "x") - left) * scale, (top - real(y, "y")) * scale];
    const entities = list(board.entities, "entities").map((entity) => ({ ...entity, name: String(entity.name), kind: kindOf(entity) }));
    const order = [...entities].sort((one, other) => KINDS.indexOf(other.kind) - KINDS.indexOf(one.kind));
    const names = entities.filter(({ kind }) => kind === "agent").map(({ name }) => name);
    const dress = (name) => look(name)?.dress ?? { "data-tone": (names.indexOf(name) % 6) + 1 };
    const ways = names.flatMap((name) => way(past.flatMap((earlier) => (earlier?.entities ?? []).filter((entity) => entity.name === name && entity.kind === "agent").map(at)), dress(name)));
    const shapes = order.flatMap((entity) => shape(entity, at(entity), scale, entity.kind === "agent" ? dress(entity.name) : {}));
    const ground = svg("rect", { class: "paper", x: 0, y: 0, width: SIDE, height });
    return picture(SIDE, height, `${description(entities)}, ${note}`, ground, ...ways, ...shapes);
  },

  legend(board, { look }) {
    const items = new Map();
    for (const entity of board.entities) {
      const kind = kindOf(entity), role = (kind === "agent" && look(String(entity.name))?.role) || kind;
      if (!items.has(role)) items.set(role, legendItem(role, svg("circle", { class: `entity ${kind}`, cx: 0.5, cy: 0.5, r: 0.4, ...look(role)?.dress })));
    }
    return [...items.values()];
  },
};

function kindOf(entity) {
  return KINDS.includes(entity.kind) ? entity.kind : "landmark";
}

function shape({ kind, name, radius, velocity }, [x, y], scale, dress) {
  const r = Math.max(0.5, real(radius, "radius") * scale);
  const parts = [svg("circle", { class: `entity ${kind}`, cx: x, cy: y, r, ...dress }, svg("title", {}, name))];
  if (velocity) parts.push(svg("line", { class: "velocity", x1: x, y1: y, x2: x + real(velocity[0], "velocity") * scale, y2: y - real(velocity[1], "velocity") * scale, ...dress }));
  if (kind !== "obstacle") parts.push(svg("text", { class: "name", x, y: y - r - 2.5 }, name.slice(0, 12)));
  return parts;
}

function description(entities) {
  const places = entities.slice(0, 12).map(({ name, kind, x, y }) => `${kind} ${name} at ${fixed(x, 2)}, ${fixed(y, 2)}`);
  return `Plane with ${entities.length} things: ${places.join("; ")}`;
}

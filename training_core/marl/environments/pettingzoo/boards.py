"""Pictures of the worlds of mpe2's environments."""

from typing import Any

import numpy as np

LEAST_EDGE = 1.2
"""A picture shows at least this distance from the centre."""
STEP_SECONDS = 0.1
"""mpe2's time step: velocities are shown per step."""


def world_board(world: Any) -> dict[str, Any]:
    """A plane with agents, landmarks and obstacles (landmarks that bodies bounce off)."""
    agents = [
        _entity(agent, "agent") | {"velocity": (np.asarray(agent.state.p_vel) * STEP_SECONDS).tolist()}
        for agent in world.agents
    ]
    landmarks = [_entity(mark, "obstacle" if mark.collide else "landmark") for mark in world.landmarks]
    farthest = max(max(abs(entity["x"]), abs(entity["y"])) for entity in agents + landmarks)
    edge = max(LEAST_EDGE, float(np.ceil(farthest * 2) / 2))
    return {"kind": "plane", "bounds": [-edge, -edge, edge, edge], "entities": agents + landmarks}


def _entity(body: Any, kind: str) -> dict[str, Any]:
    x, y = (float(value) for value in body.state.p_pos)
    return {"name": body.name, "kind": kind, "x": x, "y": y, "radius": float(body.size)}

"""An OpenEnv environment behind its own server: python openenv_server.py FILE; FILE gets its address. It needs the package openenv."""

import socket
import sys
from pathlib import Path
from typing import Any

import uvicorn
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app

DIRECTIONS = ("north", "east", "south", "west")


class Walk(Action):
    """One step."""

    direction: str


class Seen(Observation):
    """What the walker sees."""

    goal: str


class Goals(Environment[Walk, Seen, State]):
    """Walk to the goal in at most three steps; each step in its direction earns 1, and two of them reach it."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._goal, self._reached, self._state = "", 0, State()

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Seen:
        self._goal, self._reached, self._state = DIRECTIONS[seed or 0], 0, State(episode_id=episode_id)
        return Seen(goal=self._goal)

    def step(self, action: Walk, timeout_s: float | None = None, **kwargs: Any) -> Seen:
        if action.direction not in DIRECTIONS:
            raise ValueError(f"{action.direction!r} is no direction")
        right = action.direction == self._goal
        self._reached += right
        self._state.step_count += 1
        done = self._reached == 2 or self._state.step_count == 3
        return Seen(goal=self._goal, done=done, reward=float(right))

    @property
    def state(self) -> State:
        return self._state


if __name__ == "__main__":
    app = create_fastapi_app(Goals, Walk, Seen, max_concurrent_envs=16)
    listening = socket.create_server(("127.0.0.1", 0))
    Path(sys.argv[1]).write_text(f"http://127.0.0.1:{listening.getsockname()[1]}")
    uvicorn.Server(uvicorn.Config(app, log_level="warning")).run(sockets=[listening])

"""An environment by MARLKit's contract that fails in episodes which its seeds tell."""

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np


class Fragile:
    """Two agents, four steps; each sees [step, seed mod 10], and the team earns 1 + step. Where the seed is a multiple of `every`, the step
    `at` (from 0) goes wrong: `how` is "raise", "reward", "observation" or "critic". `reset`: "once" raises at one reset of a seed that
    is such a multiple, "always" at all of them.
    """

    num_agents, obs_dim, action_dim = 2, 2, 2
    raised: set[int] = set()
    """Seeds at which a reset has raised, in this process."""

    def __init__(self, every: int = 0, at: int = 2, how: str = "raise", reset: str = "") -> None:
        self._every, self._at, self._how, self._reset = every, at, how, reset

    def reset(self, seed: int) -> tuple[Any, Any]:
        self._seed, self._steps = seed, 0
        if self._breaks and (self._reset == "always" or (self._reset == "once" and seed not in self.raised)):
            self.raised.add(seed)
            raise RuntimeError("no start")
        return self._seen(), np.zeros(1)

    def step(self, actions: Any) -> tuple[Any, Any, float, bool, dict[str, Any]]:
        wrong = self._how if self._breaks and self._steps == self._at and not self._reset else ""
        if wrong == "raise":
            raise RuntimeError("the physics blew up")
        self._steps += 1
        return (
            self._seen() * (np.nan if wrong == "observation" else 1),
            np.full(1, np.nan if wrong == "critic" else self._steps),
            np.inf if wrong == "reward" else float(self._steps),
            self._steps == 4,
            {"truncated": True},
        )

    @property
    def _breaks(self) -> bool:
        return self._every > 0 and self._seed > 0 and self._seed % self._every == 0

    def _seen(self) -> Any:
        return np.tile([float(self._steps), float(self._seed % 10)], (2, 1))


class Mortal(Fragile):
    """Ends its process in the second step of the episode of this seed; only once, where there is a `marker` (the path of a file)."""

    def __init__(self, seed: int, marker: str = "") -> None:
        super().__init__()
        self._fatal, self._marker = seed, marker

    def step(self, actions: Any) -> tuple[Any, Any, float, bool, dict[str, Any]]:
        if self._seed == self._fatal and self._steps == 1 and not Path(self._marker).is_file():
            if self._marker:
                Path(self._marker).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return super().step(actions)

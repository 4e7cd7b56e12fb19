"""recall_cue: a cue at the first step, a choice at the last. In between, and at the choice, observations do not
depend on the cue: without memory no policy beats guessing, which is correct with probability 1 / `num_cues`.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_core.marl.environments.base import Actions, Choices, Flags, Reals, RoleSpec, Spec, View
from training_core.marl.environments.config import RecallCue
from training_core.marl.environments.episodes import draws
from training_core.marl.environments.games import Integers


class RecallCueGame:
    """n agents, C cues. An agent sees its own cue (one-hot) at step 0, and zeros afterwards; a last number is 1 at
    the step of the choice. The choice at that step has reward 1 if it is the agent's cue, else 0; earlier choices
    have no effect.
    """

    last_step = "terminated"

    def __init__(self, section: RecallCue, count: int) -> None:
        self._cues, self._delay = section.num_cues, section.delay
        agents = tuple(f"agent_{index}" for index in range(section.num_agents))
        actions = Choices(section.num_cues, tuple(f"cue {cue}" for cue in range(section.num_cues)))
        self.spec = Spec(
            {"agents": RoleSpec(agents, section.num_cues + 1, actions)}, max_steps=section.delay + 1
        )
        self._drawn: NDArray[Any] = np.zeros((count, len(agents)), dtype=np.int64)
        self._seen_at: Integers = np.zeros(count, dtype=np.int64)

    def begin(self, rows: Integers, seeds: Integers) -> None:
        """New cues."""
        self._drawn[rows] = (draws(seeds, 0, self._drawn.shape[1]) * self._cues).astype(np.int64)

    def play(self, actions: Mapping[str, Actions], steps: Integers) -> tuple[dict[str, Reals], Flags]:
        """Only the last choice is rewarded."""
        right = (actions["agents"] == self._drawn) & (steps == self._delay)[:, None]
        return {"agents": right.astype(np.float32)}, np.zeros(len(steps), dtype=bool)

    def view(self, steps: Integers) -> View:
        """(B, n, C + 1)."""
        self._seen_at = steps.copy()
        seen: Reals = np.zeros((*self._drawn.shape, self._cues + 1), dtype=np.float32)
        shown = (steps == 0).astype(np.float32)[:, None, None]
        np.put_along_axis(seen, self._drawn[:, :, None], shown, axis=2)
        seen[:, :, -1] = (steps == self._delay)[:, None]
        return View({"agents": seen})

    def board(self, row: int) -> dict[str, Any]:
        """Each agent's cue as text."""
        step = int(self._seen_at[row])
        when = {0: "shown now", self._delay: "choose now", self._delay + 1: "over"}.get(step, "to be kept")
        agents = self.spec.roles["agents"].agents
        lines = [
            {"label": agent, "text": f"cue {cue}, {when}"}
            for agent, cue in zip(agents, self._drawn[row].tolist(), strict=True)
        ]
        return {"kind": "lines", "lines": lines}

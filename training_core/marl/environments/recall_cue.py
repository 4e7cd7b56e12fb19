"""recall_cue: a cue at the first step, a choice at the last. In between, and at the choice, agents with and without a memory see the
same, whatever the cue was: without memory nothing beats a guess, right once in `num_cues`."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_core.config.marl.environments import RecallCue
from training_core.marl.environments.base import Actions, Choices, Reals, RoleSpec, Spec, Transition, View
from training_core.marl.environments.seeds import draws, episode_seeds


class RecallCueEnvironment:
    """n agents, C cues. An agent sees its own cue (one-hot) at step 0, and zeros afterwards; a last number is 1 when it is time to
    choose. The choice at that step earns 1 if it is the agent's cue, else 0; all choices before it do nothing."""

    def __init__(self, section: RecallCue, count: int) -> None:
        self.count, self._cues, self._delay = count, section.num_cues, section.delay
        agents = tuple(f"agent_{index}" for index in range(section.num_agents))
        names = tuple(f"cue {cue}" for cue in range(section.num_cues))
        actions = Choices(section.num_cues, names)
        self.spec = Spec(
            {"agents": RoleSpec(agents, section.num_cues + 1, actions)}, max_steps=section.delay + 1
        )
        self._seed, self._episode, self._step = 0, 0, 0
        self._numbers = np.arange(count, dtype=np.int64)
        self._drawn: NDArray[Any] = np.zeros((count, len(agents)), dtype=np.int64)

    def reset(self, seed: int, first: int = 0) -> View:
        """New cues; each environment's depend on `seed` and its own number."""
        self._seed, self._episode = seed, 0
        self._numbers = first + np.arange(self.count, dtype=np.int64)
        return self._begin()

    def step(self, actions: Mapping[str, Actions]) -> Transition:
        """All environments end at the same step."""
        over = self._step == self._delay
        right = actions["agents"] == self._drawn
        rewards = (right if over else np.zeros_like(right)).astype(np.float32)
        self._step += 1
        ended = np.full(self.count, over)
        view = View({"agents": self._observe()})
        final = view if over else None
        return Transition(
            self._begin() if over else view, {"agents": rewards}, ended, np.zeros_like(ended), final
        )

    def board(self, index: int) -> dict[str, Any]:
        """Each agent's cue in words."""
        when = "shown now" if self._step == 0 else "choose now" if self._step == self._delay else "to be kept"
        agents = self.spec.roles["agents"].agents
        lines = [
            {"label": agent, "text": f"cue {cue}, {when}"}
            for agent, cue in zip(agents, self._drawn[index].tolist(), strict=True)
        ]
        return {"kind": "lines", "lines": lines}

    def close(self) -> None:
        """Nothing is held."""

    def _begin(self) -> View:
        seeds = episode_seeds(self._seed, self._numbers, np.full_like(self._numbers, self._episode))
        self._step, self._episode = 0, self._episode + 1
        self._drawn = (draws(seeds, 0, self._drawn.shape[1]) * self._cues).astype(np.int64)
        return View({"agents": self._observe()})

    def _observe(self) -> Reals:
        """(B, n, C + 1)."""
        seen: Reals = np.zeros((*self._drawn.shape, self._cues + 1), dtype=np.float32)
        if self._step == 0:
            np.put_along_axis(seen, self._drawn[:, :, None], 1.0, axis=2)
        seen[:, :, -1] = self._step == self._delay
        return seen

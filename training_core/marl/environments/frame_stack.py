"""SuperSuit's padding and frame stacking for vectorised environments."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from training_core.marl.environments.base import (
    Actions,
    Flags,
    Reals,
    Spec,
    Transition,
    VectorEnvironment,
    View,
)
from training_core.marl.environments.config import SuperSuit
from training_core.marl.environments.episodes import Arrays, select_prefix, with_prefix


class StackedEnvironments:
    """A VectorEnvironment whose observations are padded to the widest role, then stacked over the last steps of the episode.

    As in SuperSuit: the newest observation is last, and frames before the episode's first step are zeros.
    """

    def __init__(self, environments: VectorEnvironment, section: SuperSuit) -> None:
        self._inner, self._depth = environments, section.frame_stack
        widths = {role: own.observation_dim for role, own in environments.spec.roles.items()}
        if section.pad_observations:
            widths = dict.fromkeys(widths, max(widths.values()))
        self._widths = widths
        self._frames: dict[str, Reals] = {}
        roles = {
            role: replace(own, observation_dim=widths[role] * self._depth)
            for role, own in environments.spec.roles.items()
        }
        self._spec = replace(environments.spec, roles=roles)

    @property
    def spec(self) -> Spec:
        return self._spec

    @property
    def count(self) -> int:
        return self._inner.count

    def reset(self, seed: int, first: int = 0) -> View:
        self._frames = {}
        return self._seen(self._inner.reset(seed, first), np.ones(self.count, dtype=bool))

    def step(self, actions: Mapping[str, Actions], watched: Sequence[int] = ()) -> Transition:
        transition = self._inner.step(actions, watched)
        ended, before = transition.terminated | transition.truncated, self._frames
        final = None if transition.final is None else self._seen(transition.final, np.zeros_like(ended))
        self._frames = before
        return replace(transition, view=self._seen(transition.view, ended), final=final)

    def board(self, index: int) -> dict[str, Any] | None:
        return self._inner.board(index)

    def episode_state(self) -> Arrays | None:
        inner = self._inner.episode_state()
        return None if inner is None else with_prefix("inner", inner) | with_prefix("frames", self._frames)

    def restore(self, arrays: Mapping[str, NDArray[Any]]) -> View | None:
        view = self._inner.restore(select_prefix(arrays, "inner"))
        self._frames = {role: frames.copy() for role, frames in select_prefix(arrays, "frames").items()}
        return None if view is None else self._shown(view)

    def close(self) -> None:
        self._inner.close()

    def _seen(self, view: View, begins: Flags) -> View:
        """Add a view; environments in `begins` (B,) are at an episode's first step."""
        frames = {}
        for role, seen in view.observations.items():
            width = self._widths[role]
            padded = np.zeros((*seen.shape[:2], width), dtype=np.float32)
            padded[..., : seen.shape[-1]] = seen
            older = self._frames.get(role, np.zeros((*seen.shape[:2], width * self._depth), np.float32))
            older = np.where(begins[:, None, None], np.float32(0.0), older[..., width:])
            frames[role] = np.concatenate([older, padded], axis=-1)
        self._frames = frames
        return self._shown(view)

    def _shown(self, view: View) -> View:
        return replace(view, observations={role: frames.copy() for role, frames in self._frames.items()})


def wrap_native(environments: VectorEnvironment, section: SuperSuit) -> VectorEnvironment:
    """The environments with the configured wrappers. Action spaces of native environments have equal sizes, so they need no padding."""
    if section.frame_stack == 1 and not section.pad_observations:
        return environments
    return StackedEnvironments(environments, section)

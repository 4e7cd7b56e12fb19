"""A small vectorised environment: everyone is shown a number and earns 1 for naming it (the other side: for not being matched)."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from training_core.config.marl import MarlConfig
from training_core.marl.environments.base import (
    Actions,
    Choices,
    Continuous,
    RoleSpec,
    SeveralChoices,
    Spec,
    Transition,
    View,
    last_boards,
)


class Hints:
    """B environments of `length` steps, each environment starting one step later in its episode than the one before it.

    `sides`: agents by role. Agent k of a role earns 1 + k where it names its hint. `masked`: choice 0 is forbidden and is never the hint.
    `several`: half of that for the hint, and half for naming beside it whether the hint is odd.
    """

    def __init__(
        self,
        count: int,
        sides: Mapping[str, int] | None = None,
        choices: int = 3,
        length: int = 4,
        masked: bool = False,
        terminates: bool = False,
        continuous: bool = False,
        staggered: bool = True,
        state: bool = False,
        several: bool = False,
    ) -> None:
        self.count, self.choices, self.length, self.masked = count, choices, length, masked
        self.terminates, self.continuous, self.staggered, self.with_state = (
            terminates,
            continuous,
            staggered,
            state,
        )
        self.sides = dict(sides or {"agents": 2})
        self.several = several
        plain = SeveralChoices((choices, 2)) if several else Choices(choices, ())
        actions = Continuous((-1.0, 0.0), (1.0, 4.0)) if continuous else plain
        self.spec = Spec(
            {
                role: RoleSpec(tuple(f"{role}_{k}" for k in range(number)), choices + 1, actions)
                for role, number in self.sides.items()
            },
            state_dim=2 if state else 0,
            max_steps=length,
        )
        self.sent: list[Mapping[str, Actions]] = []
        self.closed = False

    def reset(self, seed: int, first: int = 0) -> View:
        self.random = np.random.default_rng(seed)
        self.at = np.arange(self.count) % self.length if self.staggered else np.zeros(self.count, int)
        self._draw()
        return self._view()

    def step(self, actions: Mapping[str, Actions], watched: Sequence[int] = ()) -> Transition:
        self.sent.append(actions)
        rewards = {}
        for role, number in self.sides.items():
            worth = 1.0 + np.arange(number)
            if self.continuous:
                rewards[role] = (-np.abs(actions[role][..., 1] - self.hints[role]) * worth).astype(np.float32)
            elif self.several:
                wanted = np.stack([self.hints[role], self.hints[role] % 2], -1)
                rewards[role] = ((actions[role] == wanted).mean(-1) * worth).astype(np.float32)
            else:
                rewards[role] = ((actions[role] == self.hints[role]) * worth).astype(np.float32)
        self.at = self.at + 1
        self._draw()
        ended = self.at >= self.length
        final = self._view() if ended.any() else None
        boards = last_boards(self, watched, ended)
        self.at = np.where(ended, 0, self.at)
        never = np.zeros(self.count, bool)
        return Transition(
            self._view(),
            rewards,
            ended if self.terminates else never,
            never if self.terminates else ended,
            final,
            boards,
        )

    def board(self, index: int) -> dict[str, Any] | None:
        return {"kind": "plane", "at": int(self.at[index])}

    def episode_state(self) -> None:
        """Its random state is no array."""

    def restore(self, kept: Mapping[str, Any]) -> None:
        """See episodes."""

    def close(self) -> None:
        self.closed = True

    def _draw(self) -> None:
        self.hints = {
            role: self.random.integers(1 if self.masked else 0, self.choices, (self.count, number))
            for role, number in self.sides.items()
        }

    def _view(self) -> View:
        seen, masks = {}, {}
        for role, number in self.sides.items():
            at = np.broadcast_to((self.at / self.length)[:, None, None], (self.count, number, 1))
            seen[role] = np.concatenate([at, np.eye(self.choices)[self.hints[role]]], -1).astype(np.float32)
            if self.masked:
                masks[role] = np.ones((self.count, number, self.choices + 2 * self.several), bool)
                masks[role][..., 0] = False
        state = np.stack([self.at, self.at], -1).astype(np.float32) if self.with_state else None
        return View(seen, masks, state)


def config(**tree: Any) -> MarlConfig:
    """A small run of one role; what is given takes the place of these sections."""
    small = {
        "team": {"roles": {"agents": {"policy": "one"}}},
        "policies": {"one": policy()},
        "environment": {"type": "toy_simple_spread", "reward": "agent"},
        "rollout": {"environments": 8, "steps": 12},
        "run": {"iterations": 40},
    }
    return MarlConfig.model_validate(small | tree)


def policy(**network: Any) -> dict[str, Any]:
    """A policy that learns fast."""
    return {
        "network": {"type": "mlp", "hidden_dim": 32, "identity_dim": 4} | network,
        "learner": {"actor_learning_rate": 3e-3, "critic_learning_rate": 3e-3, "minibatch_size": 64},
    }


def two_sides(**tree: Any) -> MarlConfig:
    """As `config`, with adversaries and good agents, a policy each."""
    roles = {"adversaries": {"policy": "bad"}, "good": {"policy": "kind"}}
    environment = {"type": "mpe_simple_tag", "reward": "team_sum"}
    return config(
        **{
            "team": {"roles": roles},
            "policies": {"bad": policy(), "kind": policy()},
            "environment": environment,
        }
        | tree
    )

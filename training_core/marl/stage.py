"""The one place where policies play: B environments, step by step, for training and for evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from training_core.marl.environments.base import Actions, Transition, VectorEnvironment, View
from training_core.marl.networks.agents import Networks
from training_core.marl.networks.base import Memory, begin_anew
from training_core.marl.networks.heads import Head, masked
from training_core.marl.records import Played
from training_core.marl.seats import Seats


@dataclass(frozen=True)
class Player:
    """A policy as it acts."""

    seats: Seats
    actor: Networks
    head: Head
    device: torch.device


@dataclass
class Acted:
    """What one policy saw and did in one step."""

    observations: Tensor
    """(B, N, D)."""
    mask: Tensor | None
    """(B, N, A)."""
    out: Tensor
    """(B, N, O), after the mask."""
    raw: Tensor
    """(B, N) or (B, N, A); see networks.heads."""


@dataclass
class Step:
    """One step of all environments."""

    view: View
    """What was acted on."""
    acted: dict[str, Acted]
    """By policy."""
    actions: dict[str, Actions]
    """By role, as the environment was given them."""
    transition: Transition
    played: list[tuple[int, Played]]
    """Episodes that ended in it, with their environments."""


class Stage:
    """Environments and the policies that play them."""

    def __init__(self, environment: VectorEnvironment, players: Mapping[str, Player]) -> None:
        self.environment = environment
        self.players = players
        self.view: View | None = None
        self.memories: dict[str, Memory] = {}
        """By policy, as they are before the next step; those of environments that begin are not yet anew."""
        self.begins = torch.ones(environment.count, dtype=torch.bool)
        """(B,): environments at the first step of an episode."""
        self._returns = {role: np.zeros(environment.count) for role in environment.spec.roles}
        self._lengths = np.zeros(environment.count, np.int64)

    def reset(self, seed: int) -> None:
        """Begin anew everywhere."""
        self.view = self.environment.reset(seed)
        self.memories = {name: player.actor.start(self._count) for name, player in self.players.items()}
        self.begins = torch.ones(self._count, dtype=torch.bool)
        self._lengths[:] = 0
        for total in self._returns.values():
            total[:] = 0.0

    @torch.no_grad()
    def step(self, noise: Mapping[str, Tensor | None], watched: Sequence[int] = ()) -> Step:
        """Everyone acts once; by policy the noise (B, N, A) that draws its actions, None for the likeliest.

        `watched`: environments whose last boards are kept.
        """
        view = self.view
        assert view is not None, "reset comes first"
        acted = {name: self._act(name, player, view, noise[name]) for name, player in self.players.items()}
        actions: dict[str, Actions] = {}
        for name, player in self.players.items():
            actions |= player.seats.sent(player.head.sent(acted[name].raw))
        transition = self.environment.step(actions, watched)
        played = self._account(transition)
        self.view = transition.view
        self.begins = torch.from_numpy(transition.terminated | transition.truncated)
        return Step(view, acted, actions, transition, played)

    @property
    def _count(self) -> int:
        return self.environment.count

    def _act(self, name: str, player: Player, view: View, noise: Tensor | None) -> Acted:
        observations = torch.from_numpy(player.seats.observations(view)).to(player.device)
        mask = player.seats.masks(view)
        allowed = None if mask is None else torch.from_numpy(mask).to(player.device)
        if player.actor.remembers:
            rows = self.begins.repeat_interleave(player.seats.count).to(player.device)
            fresh = player.actor.start(self._count)
            self.memories[name] = begin_anew(self.memories[name], fresh, rows)
        out, self.memories[name] = player.actor.step(observations, self.memories[name])
        out = masked(out, allowed)
        drawn = None if noise is None else noise.to(player.device)
        return Acted(observations, allowed, out, player.head.act(out, drawn))

    def _account(self, transition: Transition) -> list[tuple[int, Played]]:
        """Add rewards up; hand out the sums of episodes that ended."""
        self._lengths += 1
        for role, total in self._returns.items():
            total += transition.rewards[role].sum(axis=1)
        ended = np.flatnonzero(transition.terminated | transition.truncated)
        played = []
        for index in ended.tolist():
            rewards = {role: float(total[index]) for role, total in self._returns.items()}
            cut = bool(transition.truncated[index] and not transition.terminated[index])
            failure = transition.failures.get(index)
            played.append((index, Played(rewards, int(self._lengths[index]), cut, failure=failure)))
        if len(ended):
            self._lengths[ended] = 0
            for total in self._returns.values():
                total[ended] = 0.0
        return played

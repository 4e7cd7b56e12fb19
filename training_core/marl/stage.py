"""Play of policies in B environments, step by step, for training and for evaluation."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training_core.marl.environments.base import (
    Actions,
    Flags,
    Success,
    Transition,
    VectorEnvironment,
    View,
)
from training_core.marl.environments.keeping import Kept, part_of, under
from training_core.marl.networks.agents import Networks
from training_core.marl.networks.base import Memory, begin_anew, memory_arrays, memory_of
from training_core.marl.networks.heads import Head, masked
from training_core.marl.records import Played
from training_core.marl.seats import Seats


@dataclass(frozen=True)
class Player:
    """The acting part of a policy."""

    seats: Seats
    actor: Networks
    head: Head
    device: torch.device


@dataclass
class Acted:
    """Observations and actions of one policy in one step."""

    observations: Tensor
    """(B, N, D)."""
    mask: Tensor | None
    """(B, N, A)."""
    out: Tensor
    """(B, N, O), after masking."""
    raw: Tensor
    """(B, N) or (B, N, A); see networks.heads."""
    alive: Tensor | None = None
    """(B, N): active agents; None if all were active."""
    terminated: Tensor | None = None
    """(B, N): agents that terminated individually; None if all end with their episode."""


@dataclass
class Step:
    """One step of all environments."""

    view: View
    """The view before the actions."""
    acted: dict[str, Acted]
    """Actions and observations by policy."""
    actions: dict[str, Actions]
    """By role, as passed to the environment."""
    transition: Transition
    played: list[tuple[int, Played]]
    """Episodes that ended in this step, with their environments."""


class Stage:
    """Environments and the policies that play them."""

    def __init__(self, environment: VectorEnvironment, players: Mapping[str, Player]) -> None:
        self.environment = environment
        self.players = players
        self.view: View | None = None
        self.memories: dict[str, Memory] = {}
        """By policy, before the next step; those of environments at an episode's first step are not yet reset."""
        self.begins = torch.ones(environment.count, dtype=torch.bool)
        """(B,): environments at the first step of an episode."""
        self._returns = {role: np.zeros(environment.count) for role in environment.spec.roles}
        self._lengths = np.zeros(environment.count, np.int64)

    def reset(self, seed: int) -> None:
        """Reset all environments."""
        self.view = self.environment.reset(seed)
        self.memories = {name: player.actor.start(self._count) for name, player in self.players.items()}
        self.begins = torch.ones(self._count, dtype=torch.bool)
        self._lengths[:] = 0
        for total in self._returns.values():
            total[:] = 0.0

    @torch.no_grad()
    def step(self, noise: Mapping[str, Tensor | None], watched: Sequence[int] = ()) -> Step:
        """All agents act once; `noise` (B, N, A) by policy draws its actions, None selects the most likely ones.

        `watched`: environments whose last boards are recorded.
        """
        view = self.view
        assert view is not None, "call reset() first"
        acted = {name: self._act(name, player, view, noise[name]) for name, player in self.players.items()}
        actions: dict[str, Actions] = {}
        for name, player in self.players.items():
            actions |= player.seats.sent(player.head.sent(acted[name].raw))
        transition = self.environment.step(actions, watched)
        for name, player in self.players.items():
            acted[name].terminated = self._flags(player, transition.agent_terminated, False)
        played = self._account(transition)
        self.view = transition.view
        self.begins = torch.from_numpy(transition.terminated | transition.truncated)
        return Step(view, acted, actions, transition, played)

    def kept(self) -> Kept:
        """The state of unfinished episodes, in addition to the environments."""
        assert self.view is not None, "call reset() first"
        kept = {"begins": self.begins.numpy(), "lengths": self._lengths}
        kept |= under("seen", self.view.observations) | under("returns", self._returns)
        for name, memory in self.memories.items():
            kept |= under(f"memory.{name}", memory_arrays(memory))
        return {name: part.copy() for name, part in kept.items()}

    def go_on(self, kept: Mapping[str, NDArray[Any]], view: View) -> bool:
        """Continue from `kept`, in environments with the view `view`; False if this view differs from the stored one."""
        seen = part_of(kept, "seen")
        if any(not np.array_equal(seen[role], rows) for role, rows in view.observations.items()):
            return False
        self.view, self.begins = view, torch.from_numpy(kept["begins"].copy())
        self._lengths[:] = kept["lengths"]
        for role, total in self._returns.items():
            total[:] = kept[f"returns.{role}"]
        for name, player in self.players.items():
            self.memories[name] = memory_of(part_of(kept, f"memory.{name}"), player.device)
        return True

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
        raw = player.head.act(out, drawn)
        return Acted(observations, allowed, out, raw, self._flags(player, view.alive, True))

    def _flags(self, player: Player, flags: Mapping[str, Flags], otherwise: bool) -> Tensor | None:
        found = player.seats.flags(flags, otherwise, self._count)
        return None if found is None else torch.from_numpy(found).to(player.device)

    def _by_role(self, successes: Mapping[str, bool]) -> dict[str, bool]:
        """By role: whether all its agents with a known success succeeded."""
        known = {
            role: [successes[agent] for agent in spec.agents if agent in successes]
            for role, spec in self.environment.spec.roles.items()
        }
        return {role: all(own) for role, own in known.items() if own}

    def _account(self, transition: Transition) -> list[tuple[int, Played]]:
        """Add rewards; return the sums of episodes that ended."""
        self._lengths += 1
        for role, total in self._returns.items():
            total += transition.rewards[role].sum(axis=1)
        ended = np.flatnonzero(transition.terminated | transition.truncated)
        played = []
        for index in ended.tolist():
            rewards = {role: float(total[index]) for role, total in self._returns.items()}
            cut = bool(transition.truncated[index] and not transition.terminated[index])
            failure = transition.failures.get(index)
            said = transition.successes.get(index, Success())
            played.append(
                (
                    index,
                    Played(
                        rewards,
                        int(self._lengths[index]),
                        cut,
                        said.whole,
                        failure,
                        self._by_role(said.agents),
                        dict(said.agents),
                    ),
                )
            )
        if len(ended):
            self._lengths[ended] = 0
            for total in self._returns.values():
                total[ended] = 0.0
        return played

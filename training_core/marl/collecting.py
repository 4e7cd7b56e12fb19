"""Rollouts: T steps of B environments, as arrays for the learner.

Letters: T steps, B environments, N agents of a policy, D numbers of an observation, A choices, O outputs of an actor, S numbers of
the environment's own state.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from training_core.marl.environments.base import View
from training_core.marl.networks.base import Memory, map_memory
from training_core.marl.records import Played
from training_core.marl.stage import Stage, Step


@dataclass
class Track:
    """Observations, actions and rewards of one policy."""

    observations: Tensor
    """(T + 1, B, N, D): the last is the state after the rollout."""
    masks: Tensor | None
    """(T, B, N, A)."""
    outs: Tensor
    """(T, B, N, O): the actor's outputs after the mask, from which actions were drawn."""
    raw: Tensor
    """(T, B, N) or (T, B, N, A)."""
    rewards: Tensor
    """(T, B, N): as returned by the environment."""
    memories: dict[int, Memory] = field(default_factory=dict)
    """Memories of the actor, by the step before which they were stored."""
    alive: Tensor | None = None
    """(T + 1, B, N): active agents; None if all are always active."""
    terminated: Tensor | None = None
    """(T, B, N): agents that terminated individually; None if all end with their episode."""

    def to(self, device: torch.device) -> "Track":
        """A copy on a device."""
        return Track(
            self.observations.to(device),
            _moved(self.masks, device),
            self.outs.to(device),
            self.raw.to(device),
            self.rewards.to(device),
            {t: map_memory(lambda part: part.to(device), kept) for t, kept in self.memories.items()},
            _moved(self.alive, device),
            _moved(self.terminated, device),
        )


@dataclass
class Ending:
    """The final states of episodes that ended in one step, before their resets."""

    step: int
    rows: Tensor
    """Indices of the environments."""
    observations: dict[str, Tensor]
    """Observations by policy (rows, N, D)."""
    state: Tensor | None
    """(rows, S)."""

    def to(self, device: torch.device) -> "Ending":
        """A copy on a device."""
        seen = {name: part.to(device) for name, part in self.observations.items()}
        return Ending(self.step, self.rows.to(device), seen, _moved(self.state, device))


@dataclass
class Rollout:
    """The steps of one iteration."""

    tracks: dict[str, Track]
    """Tracks by policy."""
    terminated: Tensor
    """(T, B)."""
    truncated: Tensor
    """(T, B): truncated and not terminated."""
    failed: Tensor
    """(T, B): the environment failed and the step's result is unknown. Also marked as truncated."""
    begins: Tensor
    """(T + 1, B): an episode's first step; the last row is for the state after the rollout."""
    state: Tensor | None
    """(T + 1, B, S)."""
    endings: list[Ending] = field(default_factory=list)
    """Final states of truncated episodes."""

    def to(self, device: torch.device) -> "Rollout":
        """A copy on one device. Tracks are on their actors' devices, the rest where environments are stepped."""
        return replace(
            self,
            tracks={name: track.to(device) for name, track in self.tracks.items()},
            terminated=self.terminated.to(device),
            truncated=self.truncated.to(device),
            failed=self.failed.to(device),
            begins=self.begins.to(device),
            state=_moved(self.state, device),
            endings=[ending.to(device) for ending in self.endings],
        )


def collect(
    stage: Stage, steps: int, noise: Mapping[str, Tensor], kept: Mapping[str, tuple[int, ...]]
) -> tuple[Rollout, list[Played]]:
    """Play `steps` steps; noise (T, B, N, A) by policy; memories of actors are stored before the steps in `kept`."""
    played: list[Played] = []
    rollout: Rollout | None = None
    for t in range(steps):
        memories = {name: stage.memories[name] for name, places in kept.items() if t in places}
        begins = stage.begins
        step = stage.step({name: draws[t] for name, draws in noise.items()})
        rollout = rollout or _room(step, steps)
        _write(rollout, t, step, begins, stage)
        for name, memory in memories.items():
            rollout.tracks[name].memories[t] = memory
        played += [episode for _, episode in step.played]
    assert rollout is not None and stage.view is not None
    rollout.begins[steps] = stage.begins
    for name, player in stage.players.items():
        track = rollout.tracks[name]
        track.observations[steps] = torch.from_numpy(player.seats.observations(stage.view))
        alive = player.seats.flags(stage.view.alive, True, stage.environment.count)
        if track.alive is not None and alive is not None:
            track.alive[steps] = torch.from_numpy(alive)
    if rollout.state is not None and stage.view.state is not None:
        rollout.state[steps] = torch.from_numpy(stage.view.state)
    return rollout, played


def _room(step: Step, steps: int) -> Rollout:
    """Allocate arrays for a rollout whose steps have this form."""

    def room(like: Tensor, more: int = 0) -> Tensor:
        return torch.empty(steps + more, *like.shape, dtype=like.dtype, device=like.device)

    def optional(like: Tensor | None, more: int = 0) -> Tensor | None:
        return None if like is None else room(like, more)

    tracks = {}
    for name, acted in step.acted.items():
        rewards = torch.empty(steps, *acted.observations.shape[:2], device=acted.raw.device)
        tracks[name] = Track(
            room(acted.observations, 1),
            optional(acted.mask),
            room(acted.out),
            room(acted.raw),
            rewards,
            alive=optional(acted.alive, 1),
        )
    ends = torch.from_numpy(step.transition.terminated)
    state = None if step.view.state is None else room(torch.from_numpy(step.view.state), 1)
    return Rollout(tracks, room(ends), room(ends), room(ends), room(ends, 1), state)


def _write(rollout: Rollout, t: int, step: Step, begins: Tensor, stage: Stage) -> None:
    for name, acted in step.acted.items():
        track = rollout.tracks[name]
        track.observations[t] = acted.observations
        track.outs[t] = acted.out
        track.raw[t] = acted.raw
        track.rewards[t] = torch.from_numpy(stage.players[name].seats.rewards(step.transition.rewards))
        if track.masks is not None and acted.mask is not None:
            track.masks[t] = acted.mask
        if track.alive is not None and acted.alive is not None:
            track.alive[t] = acted.alive
        if acted.terminated is not None:
            if track.terminated is None:  # a step in which every environment failed has no information
                track.terminated = acted.terminated.new_zeros(len(track.rewards), *acted.terminated.shape)
            track.terminated[t] = acted.terminated
    terminated = torch.from_numpy(step.transition.terminated)
    rollout.terminated[t] = terminated
    rollout.truncated[t] = torch.from_numpy(step.transition.truncated) & ~terminated
    rollout.failed[t] = False
    rollout.failed[t, list(step.transition.failures)] = True
    rollout.begins[t] = begins
    if rollout.state is not None and step.view.state is not None:
        rollout.state[t] = torch.from_numpy(step.view.state)
    if step.transition.final is not None and rollout.truncated[t].any():
        rollout.endings.append(_ending(t, rollout.truncated[t], step.transition.final, stage))


def _ending(t: int, cut: Tensor, final: View, stage: Stage) -> Ending:
    rows = cut.nonzero().squeeze(-1)
    seen = {
        name: torch.from_numpy(player.seats.observations(final))[rows]
        for name, player in stage.players.items()
    }
    return Ending(t, rows, seen, None if final.state is None else torch.from_numpy(final.state)[rows])


def _moved(part: Tensor | None, device: torch.device) -> Tensor | None:
    return None if part is None else part.to(device)

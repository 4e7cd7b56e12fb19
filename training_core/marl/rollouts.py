"""Rollouts: T steps of B environments, as arrays for the learner.

Letters: T steps, B environments, N agents of a policy, D numbers of an observation, A choices, O outputs of an actor, S numbers of
the environment's own state.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, is_dataclass, replace
from typing import Any

import torch
from torch import Tensor

from training_core.marl.environments.base import View
from training_core.marl.networks.base import Memory
from training_core.marl.records import EpisodeResult
from training_core.marl.vector_runner import VectorRunner, VectorStep, tensor_of


@dataclass
class PolicyTrajectory:
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


@dataclass
class FinalStates:
    """The final states of episodes that ended in one step, before their resets."""

    step: int
    rows: Tensor
    """Indices of the environments."""
    observations: dict[str, Tensor]
    """Observations by policy (rows, N, D)."""
    state: Tensor | None
    """(rows, S)."""


@dataclass
class Rollout:
    """The steps of one iteration."""

    trajectories: dict[str, PolicyTrajectory]
    """Trajectories by policy."""
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
    final_states: list[FinalStates] = field(default_factory=list)
    """Final states of truncated episodes."""

    def to(self, device: torch.device) -> "Rollout":
        """A copy on one device. Trajectories are on their actors' devices, the rest where environments are stepped."""
        moved: Rollout = map_tensors(lambda part: part.to(device), self)
        return moved


def map_tensors(change: Callable[[Tensor], Tensor], part: Any) -> Any:
    """A copy of a data class, a table or a sequence with `change` applied to all its tensors."""
    if isinstance(part, Tensor):
        return change(part)
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{name: map_tensors(change, own) for name, own in vars(part).items()})
    if isinstance(part, dict):
        return {name: map_tensors(change, own) for name, own in part.items()}
    return type(part)(map_tensors(change, own) for own in part) if isinstance(part, list | tuple) else part


def collect(
    runner: VectorRunner, steps: int, noise: Mapping[str, Tensor], memory_steps: Mapping[str, tuple[int, ...]]
) -> tuple[Rollout, list[tuple[int, EpisodeResult]]]:
    """Play `steps` steps; noise (T, B, N, A) by policy; memories of actors are stored before the steps in `memory_steps`.

    Returns the steps, and the episodes that ended with their environments.
    """
    episodes: list[tuple[int, EpisodeResult]] = []
    rollout: Rollout | None = None
    for t in range(steps):
        memories = {name: runner.memories[name] for name, steps_of in memory_steps.items() if t in steps_of}
        begins = runner.begins
        step = runner.step({name: draws[t] for name, draws in noise.items()})
        rollout = rollout or _allocate(step, steps)
        _write(rollout, t, step, begins, runner)
        for name, memory in memories.items():
            rollout.trajectories[name].memories[t] = memory
        episodes += step.finished
    assert rollout is not None and runner.view is not None
    rollout.begins[steps] = runner.begins
    for name, actor in runner.actors.items():
        trajectory = rollout.trajectories[name]
        trajectory.observations[steps] = tensor_of(actor.slots.observations(runner.view))
        alive = actor.slots.flags(runner.view.alive, True, runner.environment.count)
        if trajectory.alive is not None and alive is not None:
            trajectory.alive[steps] = torch.from_numpy(alive)
    if rollout.state is not None and runner.view.state is not None:
        rollout.state[steps] = tensor_of(runner.view.state)
    return rollout, episodes


def _allocate(step: VectorStep, steps: int) -> Rollout:
    """Allocate arrays for a rollout whose steps have this form."""

    def allocate(like: Tensor, extra: int = 0) -> Tensor:
        return torch.empty(steps + extra, *like.shape, dtype=like.dtype, device=like.device)

    def optional(like: Tensor | None, extra: int = 0) -> Tensor | None:
        return None if like is None else allocate(like, extra)

    trajectories = {}
    for name, policy_step in step.policy_steps.items():
        rewards = torch.empty(steps, *policy_step.observations.shape[:2], device=policy_step.raw.device)
        trajectories[name] = PolicyTrajectory(
            allocate(policy_step.observations, 1),
            optional(policy_step.mask),
            allocate(policy_step.out),
            allocate(policy_step.raw),
            rewards,
            alive=optional(policy_step.alive, 1),
        )
    ends = torch.from_numpy(step.transition.terminated)
    state = None if step.view.state is None else allocate(tensor_of(step.view.state), 1)
    return Rollout(trajectories, allocate(ends), allocate(ends), allocate(ends), allocate(ends, 1), state)


def _write(rollout: Rollout, t: int, step: VectorStep, begins: Tensor, runner: VectorRunner) -> None:
    for name, policy_step in step.policy_steps.items():
        trajectory = rollout.trajectories[name]
        trajectory.observations[t] = policy_step.observations
        trajectory.outs[t] = policy_step.out
        trajectory.raw[t] = policy_step.raw
        trajectory.rewards[t] = tensor_of(runner.actors[name].slots.rewards(step.transition.rewards))
        if trajectory.masks is not None and policy_step.mask is not None:
            trajectory.masks[t] = policy_step.mask
        if trajectory.alive is not None and policy_step.alive is not None:
            trajectory.alive[t] = policy_step.alive
        if policy_step.terminated is not None:
            if trajectory.terminated is None:  # a step in which every environment failed has no information
                trajectory.terminated = policy_step.terminated.new_zeros(
                    len(trajectory.rewards), *policy_step.terminated.shape
                )
            trajectory.terminated[t] = policy_step.terminated
    terminated = torch.from_numpy(step.transition.terminated)
    rollout.terminated[t] = terminated
    rollout.truncated[t] = torch.from_numpy(step.transition.truncated) & ~terminated
    rollout.failed[t] = False
    rollout.failed[t, list(step.transition.failures)] = True
    rollout.begins[t] = begins
    if rollout.state is not None and step.view.state is not None:
        rollout.state[t] = tensor_of(step.view.state)
    if step.transition.final is not None and rollout.truncated[t].any():
        rollout.final_states.append(_final_states(t, rollout.truncated[t], step.transition.final, runner))


def _final_states(t: int, cut: Tensor, final: View, runner: VectorRunner) -> FinalStates:
    rows = cut.nonzero().squeeze(-1)
    observations = {
        name: _select(actor.slots.observations(final), rows) for name, actor in runner.actors.items()
    }
    return FinalStates(t, rows, observations, None if final.state is None else _select(final.state, rows))


def _select(part: Any, rows: Tensor) -> Tensor:
    tensor = tensor_of(part)
    return tensor[rows.to(tensor.device)]

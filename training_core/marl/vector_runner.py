"""Play of policies in B environments, step by step, for training and for evaluation.

Arrays of environments are numpy arrays of the host, or tensors of environments that are on a device.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from training_core.marl.agent_slots import AgentSlots
from training_core.marl.environments.base import (
    Actions,
    Flags,
    Success,
    Transition,
    VectorEnvironment,
    View,
)
from training_core.marl.environments.episodes import Arrays, select_prefix, with_prefix
from training_core.marl.networks.agents import Networks
from training_core.marl.networks.base import Memory, memory_arrays, memory_of, reset_memory
from training_core.marl.networks.heads import Head, masked
from training_core.marl.records import EpisodeResult


def tensor_of(part: Any, device: torch.device | None = None) -> Tensor:
    """An array or a tensor as a tensor, on `device` if one is named."""
    tensor: Tensor = part if isinstance(part, Tensor) else torch.from_numpy(part)
    return tensor if device is None else tensor.to(device)


def host_array(part: Any) -> NDArray[Any]:
    """An array or a tensor as a numpy array."""
    array: NDArray[Any] = part.cpu().numpy() if isinstance(part, Tensor) else np.asarray(part)
    return array


def device_of_environment(environment: Any) -> torch.device | None:
    """The device of an environment that steps there; None for arrays on the host."""
    device: torch.device | None = getattr(environment, "device", None)
    return device


def generator_for(environment: Any) -> torch.Generator:
    """A generator of actions' noise: on the GPU that the environment is on, otherwise on the host.

    Its numbers differ between types of devices; on the host they are those of every machine.
    """
    device = device_of_environment(environment)
    return torch.Generator(device if device is not None and device.type == "cuda" else "cpu")


@dataclass(frozen=True)
class Actor:
    """The acting part of a policy."""

    slots: AgentSlots
    network: Networks
    head: Head
    device: torch.device


@dataclass
class PolicyStep:
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
class VectorStep:
    """One step of all environments."""

    view: View
    """The view before the actions."""
    policy_steps: dict[str, PolicyStep]
    """Actions and observations by policy."""
    actions: dict[str, Actions]
    """By role, as passed to the environment."""
    transition: Transition
    finished: list[tuple[int, EpisodeResult]]
    """Episodes that ended in this step, with their environments."""


class VectorRunner:
    """Environments and the policies that play them."""

    def __init__(self, environment: VectorEnvironment, actors: Mapping[str, Actor]) -> None:
        self.environment = environment
        self.actors = actors
        self.view: View | None = None
        self.memories: dict[str, Memory] = {}
        """By policy, before the next step; those of environments at an episode's first step are not yet reset."""
        self.begins = torch.ones(environment.count, dtype=torch.bool)
        """(B,): environments at the first step of an episode."""
        self._on_device = device_of_environment(environment) is not None
        self._returns: dict[str, Any] = {role: np.zeros(environment.count) for role in environment.spec.roles}
        """By role (B,): sums of rewards, where the environment has them."""
        self._lengths = np.zeros(environment.count, np.int64)

    def reset(self, seed: int) -> None:
        """Reset all environments."""
        self.start_from(self.environment.reset(seed))

    def start_from(self, view: View) -> None:
        """Start with environments that are all at the first step of an episode."""
        self.view = view
        self.memories = {name: actor.network.start(self._count) for name, actor in self.actors.items()}
        self.begins = torch.ones(self._count, dtype=torch.bool)
        self._lengths[:] = 0
        self._returns = {role: self._no_returns() for role in self._returns}

    @torch.no_grad()
    def step(self, noise: Mapping[str, Tensor | None], watched: Sequence[int] = ()) -> VectorStep:
        """All agents act once; `noise` (B, N, A) by policy draws its actions, None selects the most likely ones.

        `watched`: environments whose last boards are recorded.
        """
        view = self.view
        assert view is not None, "call reset() first"
        policy_steps = {
            name: self._act(name, actor, view, noise[name]) for name, actor in self.actors.items()
        }
        actions: dict[str, Actions] = {}
        for name, actor in self.actors.items():
            chosen: Any = actor.head.actions(policy_steps[name].raw)
            actions |= actor.slots.by_role(chosen if self._on_device else chosen.cpu().numpy())
        transition = self.environment.step(actions, watched)
        for name, actor in self.actors.items():
            policy_steps[name].terminated = self._flags(actor, transition.agent_terminated, False)
        finished = self._finished_episodes(transition)
        self.view = transition.view
        self.begins = torch.from_numpy(transition.terminated | transition.truncated)
        return VectorStep(view, policy_steps, actions, transition, finished)

    def state_arrays(self) -> Arrays:
        """The state of unfinished episodes, in addition to the environments."""
        assert self.view is not None, "call reset() first"
        arrays = {"begins": self.begins.numpy(), "lengths": self._lengths}
        arrays |= with_prefix("seen", _on_host(self.view.observations))
        arrays |= with_prefix("returns", _on_host(self._returns))
        for name, memory in self.memories.items():
            arrays |= with_prefix(f"memory.{name}", memory_arrays(memory))
        return {name: part.copy() for name, part in arrays.items()}

    def restore(self, arrays: Mapping[str, NDArray[Any]], view: View) -> bool:
        """Continue from `arrays`, in environments with the view `view`; False if this view differs from the stored one."""
        seen = select_prefix(arrays, "seen")
        if any(not np.array_equal(seen[role], rows) for role, rows in _on_host(view.observations).items()):
            return False
        self.view, self.begins = view, torch.from_numpy(arrays["begins"].copy())
        self._lengths[:] = arrays["lengths"]
        for role in self._returns:
            total = arrays[f"returns.{role}"].copy()
            self._returns[role] = tensor_of(total, self._device) if self._on_device else total
        for name, actor in self.actors.items():
            self.memories[name] = memory_of(select_prefix(arrays, f"memory.{name}"), actor.device)
        return True

    @property
    def _count(self) -> int:
        return self.environment.count

    @property
    def _device(self) -> torch.device | None:
        return device_of_environment(self.environment)

    def _no_returns(self) -> Any:
        if self._on_device:
            return torch.zeros(self._count, dtype=torch.float64, device=self._device)
        return np.zeros(self._count)

    def _act(self, name: str, actor: Actor, view: View, noise: Tensor | None) -> PolicyStep:
        observations = tensor_of(actor.slots.observations(view), actor.device)
        mask = actor.slots.masks(view)
        allowed = None if mask is None else torch.from_numpy(mask).to(actor.device)
        if actor.network.has_memory and self.begins.any():
            rows = self.begins.repeat_interleave(actor.slots.count).to(actor.device)
            fresh = actor.network.start(self._count)
            self.memories[name] = reset_memory(self.memories[name], fresh, rows)
        out, self.memories[name] = actor.network.step(observations, self.memories[name])
        out = masked(out, allowed)
        drawn = None if noise is None else noise.to(actor.device)
        raw = actor.head.act(out, drawn)
        return PolicyStep(observations, allowed, out, raw, self._flags(actor, view.alive, True))

    def _flags(self, actor: Actor, flags: Mapping[str, Flags], otherwise: bool) -> Tensor | None:
        stacked = actor.slots.flags(flags, otherwise, self._count)
        return None if stacked is None else torch.from_numpy(stacked).to(actor.device)

    def _role_successes(self, successes: Mapping[str, bool]) -> dict[str, bool]:
        """By role: whether all its agents with a known success succeeded."""
        if not successes:
            return {}
        outcomes = {
            role: [successes[agent] for agent in spec.agents if agent in successes]
            for role, spec in self.environment.spec.roles.items()
        }
        return {role: all(own) for role, own in outcomes.items() if own}

    def _finished_episodes(self, transition: Transition) -> list[tuple[int, EpisodeResult]]:
        """Add rewards; return the sums of episodes that ended."""
        self._lengths += 1
        for role, total in self._returns.items():
            total += transition.rewards[role].sum(1)
        ended = np.flatnonzero(transition.terminated | transition.truncated)
        finished, unknown = [], Success()
        returns = _on_host(self._returns) if len(ended) else {}
        for index in ended.tolist():
            rewards = {role: float(total[index]) for role, total in returns.items()}
            cut = bool(transition.truncated[index] and not transition.terminated[index])
            failure = transition.failures.get(index)
            success = transition.successes.get(index, unknown)
            finished.append(
                (
                    index,
                    EpisodeResult(
                        rewards,
                        int(self._lengths[index]),
                        cut,
                        success.whole,
                        failure,
                        self._role_successes(success.agents),
                        dict(success.agents),
                    ),
                )
            )
        if len(ended):
            self._lengths[ended] = 0
            for total in self._returns.values():
                total[ended] = 0.0
        return finished


def _on_host(parts: Mapping[str, Any]) -> dict[str, NDArray[Any]]:
    return {name: host_array(part) for name, part in parts.items()}

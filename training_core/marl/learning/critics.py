"""Inputs of critics, and their values of a whole rollout.

Letters: T steps, B environments, N agents of the policy, K columns of values: one per role for a centralised critic
(MAPPO) of a team's reward, one per agent if each agent learns from its own reward, and for an independent critic
(IPPO). M is 1 for a centralised critic and N for an independent one, C inputs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from training_core.config.marl.algorithms import MarlPpo
from training_core.config.marl.policies import Network
from training_core.marl.collecting import Rollout
from training_core.marl.environments.base import Spec
from training_core.marl.networks.agents import Networks, make_network
from training_core.marl.networks.base import Memory, begin_anew
from training_core.marl.seats import Seats


@dataclass
class Judged:
    """Values of a rollout, on the critic's scale."""

    values: Tensor
    """(T, B, K): V of the state before the action."""
    next_values: Tensor
    """(T, B, K): V of the state after each step; of the episode's final state if it was truncated."""
    memories: dict[int, Memory]
    """Memories of the critic, by the step before which they were stored."""


class Sight:
    """Inputs of a policy's critic: own observations, its team's, all agents', or the environment's state."""

    def __init__(
        self, algorithm: MarlPpo, seats: Seats, every: dict[str, Seats], spec: Spec, reward: str
    ) -> None:
        self.central = algorithm.view != "own"
        self.state = self.central and spec.state_dim > 0
        self.policies = list(every) if algorithm.view == "all" else [seats.policy]
        self.seats = seats
        joint = sum(every[name].count * every[name].observation_dim for name in self.policies)
        self.inputs = (spec.state_dim or joint) if self.central else seats.observation_dim
        self.rows = 1 if self.central else seats.count
        """M."""
        self.per_role = self.central and reward != "agent"
        """One value for all agents of a role, which have the same reward; otherwise one each."""
        self.outputs = (len(seats.roles) if self.per_role else seats.count) if self.central else 1

    def network(self, config: Network) -> Networks:
        """The critic."""
        return make_network(config, self.inputs, self.outputs, self.rows, 1.0)

    def inputs_of(self, observations: dict[str, Tensor], state: Tensor | None) -> Tensor:
        """By policy (..., N, D), and (..., S) -> (..., M, C)."""
        if self.state and state is not None:
            return state.unsqueeze(-2)
        if not self.central:
            return observations[self.seats.policy]
        return torch.cat([observations[name].flatten(-2) for name in self.policies], dim=-1).unsqueeze(-2)

    def columns(self, out: Tensor) -> Tensor:
        """(..., M, O) -> (..., K)."""
        return out.flatten(-2)

    def by_agent(self, values: Tensor) -> Tensor:
        """(..., K) -> (..., N): a role's value for each of its agents."""
        if not self.per_role:
            return values
        parts = [
            values[..., place : place + 1].expand(*values.shape[:-1], where.stop - where.start)
            for place, where in enumerate(self.seats.slices)
        ]
        return torch.cat(parts, dim=-1)

    def by_column(self, by_agent: Tensor) -> Tensor:
        """(..., N) -> (..., K): the mean over a role's agents."""
        if not self.per_role:
            return by_agent
        return torch.stack([by_agent[..., where].mean(-1) for where in self.seats.slices], dim=-1)

    def any_by_column(self, by_agent: Tensor) -> Tensor:
        """(..., N) -> (..., K) bool: whether it is true for any agent of a role."""
        if not self.per_role:
            return by_agent
        return torch.stack([by_agent[..., where].any(-1) for where in self.seats.slices], dim=-1)


@torch.no_grad()
def judge(
    critic: Networks, sight: Sight, rollout: Rollout, before: Memory, keep: tuple[int, ...]
) -> tuple[Judged, Tensor, Memory]:
    """Values of a rollout, with the critic's memory `before` it; also its inputs (T + 1, B, M, C) and its memory after it."""
    seen = {name: track.observations for name, track in rollout.tracks.items()}
    inputs = sight.inputs_of(seen, rollout.state)
    finals = [
        (ending.step, ending.rows, sight.inputs_of(ending.observations, ending.state))
        for ending in rollout.endings
    ]
    judge_all = _by_steps if critic.remembers else _at_once
    values, ends, memories, after = judge_all(critic, inputs, finals, rollout.begins, before, keep)
    next_values = values[1:].clone()
    for (t, rows, _), value in zip(finals, ends, strict=True):
        next_values[t, rows] = value
    columns = sight.columns
    return Judged(columns(values[:-1]), columns(next_values), memories), inputs, after


Finals = list[tuple[int, Tensor, Tensor]]
"""Step, environments, inputs (rows, M, C)."""


def _at_once(
    critic: Networks, inputs: Tensor, finals: Finals, begins: Tensor, before: Memory, keep: tuple[int, ...]
) -> tuple[Tensor, list[Tensor], dict[int, Memory], Memory]:
    values = critic.sequence(inputs, before, begins)
    ends = [critic.step(last, before)[0] for _, _, last in finals]
    return values, ends, {}, before


def _by_steps(
    critic: Networks, inputs: Tensor, finals: Finals, begins: Tensor, before: Memory, keep: tuple[int, ...]
) -> tuple[Tensor, list[Tensor], dict[int, Memory], Memory]:
    """Values step by step, with the memory that the critic would have at each step."""
    fresh = critic.start(inputs.shape[1])
    starts = begins.repeat_interleave(critic.agents, dim=1)
    last = {t: (rows, seen) for t, rows, seen in finals}
    values, ends, memories = [], [], {}
    memory, carried = before, before
    for t in range(len(inputs)):
        if t in keep:
            memories[t] = memory
        carried = memory
        value, memory = critic.step(inputs[t], begin_anew(memory, fresh, starts[t]))
        values.append(value)
        if t in last:
            rows, seen = last[t]
            whole = inputs[t].clone()
            whole[rows] = seen
            ends.append(critic.step(whole, memory)[0][rows])
    return torch.stack(values), ends, memories, carried

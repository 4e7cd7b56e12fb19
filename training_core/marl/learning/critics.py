"""Critics: their inputs, their values of a whole rollout, the scale of values, and the ends after which there is no next value.

Letters: T steps, B environments, N agents of the policy, K columns of values: one per role for a centralised critic (MAPPO) of a
team's reward, one per agent if each agent learns from its own reward, and for an independent critic (IPPO). M is 1 for a centralised
critic and N for an independent one, C inputs.

An agent may leave before its episode ends. With its own reward (`environment.reward = "agent"`), its own end is terminal: the value
after it is 0 or, if it was truncated, that of its own last observation. With a team's reward, its last action still gets later
rewards of the rest of its role, so only the end of the whole role is terminal; until then the value of an agent that has left is the
mean value of the remaining agents of its role.
"""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from training_core.marl.agent_slots import AgentSlots
from training_core.marl.algorithms.config import MarlPpo
from training_core.marl.environments.base import Spec
from training_core.marl.networks.agents import Networks, make_network
from training_core.marl.networks.base import Memory, reset_memory
from training_core.marl.networks.config import Network
from training_core.marl.rollouts import PolicyTrajectory, Rollout


@dataclass(frozen=True)
class Ends:
    """The ends in each step."""

    terminated: Tensor
    """(T, B, 1) or (T, B, N): terminal, with value 0 after it."""
    truncated: Tensor
    """The same shape: truncated; the value of the last state follows."""
    alive: Tensor | None = None
    """(T, B, N): active agents; None if all are."""
    alive_after: Tensor | None = None
    """(T, B, N): agents with a next value: those active in the next step, or active when the episode ended."""


def ends_of(trajectory: PolicyTrajectory, rollout: Rollout, slots: AgentSlots, reward: str) -> Ends:
    """The ends used for training a policy's agents."""
    over, cut = rollout.terminated.unsqueeze(-1), rollout.truncated.unsqueeze(-1)
    if trajectory.alive is None and trajectory.terminated is None:
        return Ends(over, cut)
    everyone = torch.ones_like(trajectory.observations[..., 0], dtype=torch.bool)
    alive = everyone if trajectory.alive is None else trajectory.alive
    active, ended = alive[:-1], over | cut
    after = torch.where(ended, active, alive[1:])
    own = over.expand_as(active) if trajectory.terminated is None else trajectory.terminated
    leaves = active & (ended | ~alive[1:])
    own_termination = leaves & own
    if reward != "agent":
        leaves, own_termination = _role_ends(active, leaves, own_termination, after & ~ended, slots)
    mask = None if trajectory.alive is None else active
    return Ends(own_termination, leaves & ~own_termination, mask, None if mask is None else after)


def fill_departed_values(values: Tensor, alive: Tensor | None, slots: AgentSlots) -> Tensor:
    """Values (T, B, N) in which an agent that has left has the mean of its role's others; unchanged if none remain."""
    if alive is None:
        return values
    parts = []
    for agents in slots.slices:
        own, active = values[..., agents], alive[..., agents]
        count = active.sum(-1, keepdim=True)
        mean = torch.where(active, own, 0.0).sum(-1, keepdim=True) / count.clamp_min(1)
        parts.append(torch.where(active | (count == 0), own, mean))
    return torch.cat(parts, dim=-1)


def _role_ends(
    active: Tensor, leaves: Tensor, own_termination: Tensor, continues: Tensor, slots: AgentSlots
) -> tuple[Tensor, Tensor]:
    """Ends of whole roles, for each of their agents: which end, and which of these only by termination."""
    ends, overs = [], []
    for agents in slots.slices:
        end = active[..., agents].any(-1, keepdim=True) & ~continues[..., agents].any(-1, keepdim=True)
        over = end & (own_termination | ~leaves)[..., agents].all(-1, keepdim=True)
        ends.append(end.expand_as(active[..., agents]))
        overs.append(over.expand_as(active[..., agents]))
    return torch.cat(ends, dim=-1), torch.cat(overs, dim=-1)


SLOWEST = 0.05
"""Minimum weight of a new iteration's returns; the first iterations have weights as in a plain mean."""
SMALLEST = 1e-4
"""Minimum variance."""


@dataclass
class ValueScale:
    """Value targets are returns minus a running mean, divided by a running standard deviation; the identity until the first update.

    After each change of scale the critic's last layer is corrected so that unnormalised values do not change (PopArt, van Hasselt
    et al. 2016, arXiv 1602.07714).
    """

    mean: float = 0.0
    variance: float = 1.0
    """About the mean, so that returns far from zero keep their digits: a mean of squares has none left for them."""
    updates: int = 0

    @property
    def std(self) -> float:
        return math.sqrt(max(self.variance, SMALLEST))

    def normalise(self, values: Tensor) -> Tensor:
        return (values - self.mean) / self.std

    def denormalise(self, values: Tensor) -> Tensor:
        return values * self.std + self.mean

    def update(self, returns: Tensor, head: list[nn.Linear]) -> None:
        """Add another iteration's returns, and preserve the critic's value of each state."""
        mean, std = self.mean, self.std
        self.updates += 1
        weight = max(1 / self.updates, SLOWEST)
        exact = returns.double()
        shift = float(exact.mean()) - self.mean
        self.mean += weight * shift
        spread = float(exact.var(correction=0))
        self.variance += weight * (spread - self.variance + (1 - weight) * shift**2)
        with torch.no_grad():
            for layer in head:
                layer.weight.mul_(std / self.std)
                layer.bias.mul_(std).add_(mean - self.mean).div_(self.std)


@dataclass
class RolloutValues:
    """Values of a rollout, on the critic's scale."""

    values: Tensor
    """(T, B, K): V of the state before the action."""
    next_values: Tensor
    """(T, B, K): V of the state after each step; of the episode's final state if it was truncated."""
    memories: dict[int, Memory]
    """Memories of the critic, by the step before which they were stored."""


class CriticInputs:
    """Inputs of a policy's critic: own observations, its team's, all agents', or the environment's state."""

    def __init__(
        self, algorithm: MarlPpo, slots: AgentSlots, all_slots: dict[str, AgentSlots], spec: Spec, reward: str
    ) -> None:
        self.central = algorithm.view != "own"
        self.state = self.central and spec.state_dim > 0
        self.policies = list(all_slots) if algorithm.view == "all" else [slots.policy]
        self.slots = slots
        joint = sum(all_slots[name].count * all_slots[name].observation_dim for name in self.policies)
        self.inputs = (spec.state_dim or joint) if self.central else slots.observation_dim
        kinds = {all_slots[name].pictures for name in self.policies}
        first = None if self.state or len(kinds) > 1 else slots.pictures
        self.pictures = first and replace(first, count=self.inputs // slots.observation_dim)
        self.rows = 1 if self.central else slots.count
        """M."""
        self.per_role = self.central and reward != "agent"
        """One value for all agents of a role, which have the same reward; otherwise one each."""
        self.outputs = (len(slots.roles) if self.per_role else slots.count) if self.central else 1

    def network(self, config: Network) -> Networks:
        """The critic."""
        return make_network(config, self.inputs, self.outputs, self.rows, 1.0, self.pictures)

    def inputs_of(self, observations: dict[str, Tensor], state: Tensor | None) -> Tensor:
        """By policy (..., N, D), and (..., S) -> (..., M, C)."""
        if self.state and state is not None:
            return state.unsqueeze(-2)
        if not self.central:
            return observations[self.slots.policy]
        return torch.cat([observations[name].flatten(-2) for name in self.policies], dim=-1).unsqueeze(-2)

    def columns(self, out: Tensor) -> Tensor:
        """(..., M, O) -> (..., K)."""
        return out.flatten(-2)

    def by_agent(self, values: Tensor) -> Tensor:
        """(..., K) -> (..., N): a role's value for each of its agents."""
        if not self.per_role:
            return values
        parts = [
            values[..., index : index + 1].expand(*values.shape[:-1], agents.stop - agents.start)
            for index, agents in enumerate(self.slots.slices)
        ]
        return torch.cat(parts, dim=-1)

    def by_column(self, by_agent: Tensor) -> Tensor:
        """(..., N) -> (..., K): the mean over a role's agents."""
        if not self.per_role:
            return by_agent
        return torch.stack([by_agent[..., agents].mean(-1) for agents in self.slots.slices], dim=-1)

    def any_by_column(self, by_agent: Tensor) -> Tensor:
        """(..., N) -> (..., K) bool: whether it is true for any agent of a role."""
        if not self.per_role:
            return by_agent
        return torch.stack([by_agent[..., agents].any(-1) for agents in self.slots.slices], dim=-1)


@torch.no_grad()
def compute_values(
    critic: Networks,
    critic_inputs: CriticInputs,
    rollout: Rollout,
    before: Memory,
    memory_steps: tuple[int, ...],
) -> tuple[RolloutValues, Tensor, Memory]:
    """Values of a rollout, with the critic's memory `before` it; also its inputs (T + 1, B, M, C) and its memory after it."""
    observations = {name: trajectory.observations for name, trajectory in rollout.trajectories.items()}
    inputs = critic_inputs.inputs_of(observations, rollout.state)
    finals = [
        (
            final_state.step,
            final_state.rows,
            critic_inputs.inputs_of(final_state.observations, final_state.state),
        )
        for final_state in rollout.final_states
    ]
    compute = _step_by_step if critic.has_memory else _whole_sequence
    values, final_values, memories, after = compute(
        critic, inputs, finals, rollout.begins, before, memory_steps
    )
    next_values = values[1:].clone()
    for (t, rows, _), value in zip(finals, final_values, strict=True):
        next_values[t, rows] = value
    columns = critic_inputs.columns
    return RolloutValues(columns(values[:-1]), columns(next_values), memories), inputs, after


Finals = list[tuple[int, Tensor, Tensor]]
"""Step, environments, inputs (rows, M, C)."""


def _whole_sequence(
    critic: Networks,
    inputs: Tensor,
    finals: Finals,
    begins: Tensor,
    before: Memory,
    memory_steps: tuple[int, ...],
) -> tuple[Tensor, list[Tensor], dict[int, Memory], Memory]:
    values = critic.sequence(inputs, before, begins)
    final_values = [critic.step(final_inputs, before)[0] for _, _, final_inputs in finals]
    return values, final_values, {}, before


def _step_by_step(
    critic: Networks,
    inputs: Tensor,
    finals: Finals,
    begins: Tensor,
    before: Memory,
    memory_steps: tuple[int, ...],
) -> tuple[Tensor, list[Tensor], dict[int, Memory], Memory]:
    """Values step by step, with the memory that the critic would have at each step."""
    fresh = critic.start(inputs.shape[1])
    starts, any_starts = begins.repeat_interleave(critic.agents, dim=1), begins.any(1).tolist()
    final_inputs = {t: (rows, state) for t, rows, state in finals}
    values, final_values, memories = [], [], {}
    memory, before_last = before, before
    for t in range(len(inputs)):
        if t in memory_steps:
            memories[t] = memory
        before_last = memory
        value, memory = critic.step(
            inputs[t], reset_memory(memory, fresh, starts[t]) if any_starts[t] else memory
        )
        values.append(value)
        if t in final_inputs:
            rows, final_rows = final_inputs[t]
            final_step = inputs[t].clone()
            final_step[rows] = final_rows
            final_values.append(critic.step(final_step, memory)[0][rows])
    return torch.stack(values), final_values, memories, before_last

"""Inputs of critics, and their values of a whole rollout.

Letters: T steps, B environments, N agents of the policy, K columns of values: one per role for a centralised critic
(MAPPO) of a team's reward, one per agent if each agent learns from its own reward, and for an independent critic
(IPPO). M is 1 for a centralised critic and N for an independent one, C inputs.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from training_core.marl.agent_slots import AgentSlots
from training_core.marl.algorithms.ppo_config import MarlPpo
from training_core.marl.environments.base import Spec
from training_core.marl.networks.agents import Networks, make_network
from training_core.marl.networks.base import Memory, reset_memory
from training_core.marl.networks.network_config import Network
from training_core.marl.rollouts import Rollout


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
        self.rows = 1 if self.central else slots.count
        """M."""
        self.per_role = self.central and reward != "agent"
        """One value for all agents of a role, which have the same reward; otherwise one each."""
        self.outputs = (len(slots.roles) if self.per_role else slots.count) if self.central else 1

    def network(self, config: Network) -> Networks:
        """The critic."""
        return make_network(config, self.inputs, self.outputs, self.rows, 1.0)

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

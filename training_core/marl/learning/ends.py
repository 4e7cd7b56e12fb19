"""Active agents and ends of each step, per agent.

Letters: T steps, B environments, N agents of a policy.

An agent may leave before its episode ends. With its own reward (`environment.reward = "agent"`), its own end is
terminal: the value after it is 0 or, if it was truncated, that of its own last observation. With a team's reward, its
last action still gets later rewards of the rest of its role, so only the end of the whole role is terminal; until
then the value of an agent that has left is the mean value of the remaining agents of its role.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from training_core.marl.agent_slots import AgentSlots
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

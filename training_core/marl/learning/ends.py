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

from training_core.marl.collecting import Rollout, Track
from training_core.marl.seats import Seats


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


def ends_of(track: Track, rollout: Rollout, seats: Seats, reward: str) -> Ends:
    """The ends used for training a policy's agents."""
    over, cut = rollout.terminated.unsqueeze(-1), rollout.truncated.unsqueeze(-1)
    if track.alive is None and track.terminated is None:
        return Ends(over, cut)
    everyone = torch.ones_like(track.observations[..., 0], dtype=torch.bool)
    alive = everyone if track.alive is None else track.alive
    here, ended = alive[:-1], over | cut
    after = torch.where(ended, here, alive[1:])
    own = over.expand_as(here) if track.terminated is None else track.terminated
    leaves = here & (ended | ~alive[1:])
    own_over = leaves & own
    if reward != "agent":
        leaves, own_over = _of_roles(here, leaves, own_over, after & ~ended, seats)
    known = None if track.alive is None else here
    return Ends(own_over, leaves & ~own_over, known, None if known is None else after)


def of_living(values: Tensor, alive: Tensor | None, seats: Seats) -> Tensor:
    """Values (T, B, N) in which an agent that has left has the mean of its role's others; unchanged if none remain."""
    if alive is None:
        return values
    parts = []
    for where in seats.slices:
        own, there = values[..., where], alive[..., where]
        count = there.sum(-1, keepdim=True)
        mean = torch.where(there, own, 0.0).sum(-1, keepdim=True) / count.clamp_min(1)
        parts.append(torch.where(there | (count == 0), own, mean))
    return torch.cat(parts, dim=-1)


def _of_roles(
    here: Tensor, leaves: Tensor, own_over: Tensor, goes_on: Tensor, seats: Seats
) -> tuple[Tensor, Tensor]:
    """Ends of whole roles, for each of their agents: which end, and which of these only by termination."""
    ends, overs = [], []
    for where in seats.slices:
        end = here[..., where].any(-1, keepdim=True) & ~goes_on[..., where].any(-1, keepdim=True)
        over = end & (own_over | ~leaves)[..., where].all(-1, keepdim=True)
        ends.append(end.expand_as(here[..., where]))
        overs.append(over.expand_as(here[..., where]))
    return torch.cat(ends, dim=-1), torch.cat(overs, dim=-1)

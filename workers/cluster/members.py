"""Members: actors in their slots. Calls to several that train together, of which none can be replaced."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ray
from ray.exceptions import RayActorError

from workers.cluster.answers import LOST_REMEDY, answer, exit_of
from workers.cluster.spawner import Handle
from workers.protocol.records import WorkerLost
from workers.sizing.placement import ActorSlot

DEATH_SECONDS = 30.0
"""Maximum seconds after a failed call within which a dead member is identified."""


@dataclass(frozen=True)
class Member:
    """An actor in its slot."""

    actor_slot: ActorSlot
    handle: Handle
    life: int = 0
    """Number of actors that died in this slot before."""


def wait_for(member: Member, reference: Any) -> Any:
    """The result of a call to a member that cannot be replaced. Raises what it raised, WorkerLost if it died."""
    try:
        return answer(reference)
    except RayActorError as error:
        raise lost(member, error) from error


def lost(member: Member, error: RayActorError) -> WorkerLost:
    """The error for the death of a member that holds the only copy of what its policy has learnt."""
    actor_slot = member.actor_slot
    return WorkerLost(
        f"{actor_slot.name} died, and with it what policy {actor_slot.policy!r} had learnt since the last checkpoint: "
        f"{exit_of(error)}. {LOST_REMEDY}"
    )


def call_all(members: Sequence[Member], method: str, *arguments: Any) -> list[Any]:
    """Call a method of all members, which may communicate with each other. Returns the results in order.

    Raises the first failure immediately, because the other calls may never return.
    """
    references = [getattr(member.handle, method).remote(*arguments) for member in members]
    waiting = dict(zip(references, members, strict=True))
    while waiting:
        (reference, *_), _ = ray.wait(list(waiting), num_returns=1)
        try:
            wait_for(waiting.pop(reference), reference)
        except WorkerLost:
            raise
        except Exception:  # for example gloo's or NCCL's error in communication with a dead member
            if len(members) > 1:
                _find_dead(members)
            raise
    return [answer(reference) for reference in references]


def _find_dead(members: Sequence[Member]) -> None:
    """Raise WorkerLost, which names the dead member, if one has died."""
    pings = {member.handle.ping.remote(): member for member in members}
    deadline = time.monotonic() + DEATH_SECONDS
    while pings and time.monotonic() < deadline:
        done, _ = ray.wait(list(pings), num_returns=1, timeout=1.0)
        for reference in done:
            wait_for(pings.pop(reference), reference)

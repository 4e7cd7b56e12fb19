"""Results of actors' calls: the actor's own error without Ray's wrapping, and a short reason for an actor's death."""

import re
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from workers.telemetry.reasons import plain

LONGEST = 300
"""Maximum characters of Ray's message if no known ending matches."""
ENDINGS = (
    (r"low on memory|memory monitor|OutOfMemory", "its machine ran out of memory"),
    (r"node (of|on|where|that).{0,80}(died|dead|fail)|node was (terminated|dead)", "its machine is gone"),
    (r"ray\.kill|INTENDED_USER_EXIT|INTENDED_SYSTEM_EXIT", "it was ended by its run"),
    (r"temporarily unavailable", "the connection to its process was lost"),
    (r"connection error|End of file|SYSTEM_ERROR", "its process was killed or crashed (often out of memory)"),
)
"""Pattern in Ray's message -> reason for people; the first match counts."""


LOST_REMEDY = (
    "Lower rollout.tasks, resources.environments_per_worker or policies.*.learner.micro_batch_tokens if memory is short, and "
    "check the machine of this worker"
)
"""Remedy for a worker that died and cannot be replaced."""


def answer(reference: Any) -> Any:
    """The result of an actor's call. Raises what the actor raised, and RayActorError if it died.

    Ray wraps the actor's error in one whose text is a traceback with terminal codes; that one becomes the cause. An error of
    the actor's constructor is raised too: a replacement would raise it again.
    """
    try:
        return ray.get(reference)
    except RayTaskError as error:
        raise original(error) from error
    except RayActorError as error:
        if (raised := _of_constructor(error)) is None:
            raise
        raise raised from error


def original(error: BaseException) -> BaseException:
    """The original error, which is wrapped several times if actors call actors."""
    while isinstance(error, RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error


def _of_constructor(error: RayActorError) -> BaseException | None:
    """What the actor's constructor raised; None if the actor died in another way."""
    wrapped = error.args[0] if error.actor_init_failed and error.args else None
    raised = original(wrapped) if isinstance(wrapped, RayTaskError) else None
    return None if isinstance(raised, RayTaskError | RayActorError) else raised


def exit_of(error: RayActorError) -> str:
    """Short reason for the actor's death, without Ray's paragraph of possible causes."""
    if error.preempted:
        return "its machine was taken away (preempted)"
    message = plain(str(error))
    for pattern, ending in ENDINGS:
        if re.search(pattern, message, re.IGNORECASE | re.DOTALL):
            return ending
    return " ".join(message.split())[:LONGEST]

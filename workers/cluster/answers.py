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
    (r"connection error|End of file|SYSTEM_ERROR", "its process was killed or crashed (often out of memory)"),
)
"""Pattern in Ray's message -> reason for people; the first match counts."""


def answer(reference: Any) -> Any:
    """The result of an actor's call. Raises what the actor raised, and RayActorError if it died.

    Ray wraps the actor's error in one whose text is a traceback with terminal codes; that one becomes the cause.
    """
    try:
        return ray.get(reference)
    except RayTaskError as error:
        raise original(error) from error


def original(error: BaseException) -> BaseException:
    """The original error, which is wrapped several times if actors call actors."""
    while isinstance(error, RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error


def exit_of(error: RayActorError) -> str:
    """Short reason for the actor's death, without Ray's paragraph of possible causes."""
    if error.preempted:
        return "its machine was taken away (preempted)"
    message = plain(str(error))
    if error.actor_init_failed:  # Ray's text ends with what its constructor raised
        return f"it could not start: {message.splitlines()[-1].strip()[:LONGEST]}"
    for pattern, ending in ENDINGS:
        if re.search(pattern, message, re.IGNORECASE | re.DOTALL):
            return ending
    return " ".join(message.split())[:LONGEST]

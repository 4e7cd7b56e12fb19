"""What actors answer, without Ray's wrapping: the error that an actor raised, and in a few words how an actor ended."""

import re
from typing import Any

import ray
from ray.exceptions import RayActorError, RayTaskError

from workers.telemetry.reasons import plain

LONGEST = 300
"""Characters of what Ray says where none of the known endings fits."""
ENDINGS = (
    (r"low on memory|memory monitor|OutOfMemory", "its machine ran out of memory"),
    (r"node (of|on|where|that).{0,80}(died|dead|fail)|node was (terminated|dead)", "its machine is gone"),
    (r"ray\.kill|INTENDED_USER_EXIT|INTENDED_SYSTEM_EXIT", "it was ended by its run"),
    (r"connection error|End of file|SYSTEM_ERROR", "its process was killed or crashed (often out of memory)"),
)
"""What Ray's paragraph holds -> what a person is told; the first that fits."""


def answer(reference: Any) -> Any:
    """What an actor answers. Raises what the actor raised, and RayActorError where the actor died.

    Ray wraps what an actor raises in an error whose text is a traceback with terminal codes. That one becomes the cause.
    """
    try:
        return ray.get(reference)
    except RayTaskError as error:
        raise original(error) from error


def original(error: BaseException) -> BaseException:
    """What was raised first: actors that call actors wrap it several times."""
    while isinstance(error, RayTaskError) and isinstance(error.cause, BaseException):
        error = error.cause
    return error


def exit_of(error: RayActorError) -> str:
    """How the actor ended, without Ray's paragraph of possible causes: that one belongs in the log."""
    if error.preempted:
        return "its machine was taken away (preempted)"
    said = plain(str(error))
    if error.actor_init_failed:  # Ray's text ends with what its constructor raised
        return f"it could not start: {said.splitlines()[-1].strip()[:LONGEST]}"
    for pattern, ending in ENDINGS:
        if re.search(pattern, said, re.IGNORECASE | re.DOTALL):
            return ending
    return " ".join(said.split())[:LONGEST]

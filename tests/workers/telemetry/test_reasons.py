"""Reasons that people read: no traceback, no terminal codes, no endless text."""

import pytest

from workers.telemetry.faults import LONGEST_REASON, plain, reason

WRAPPED = (
    "\x1b[36mray::RolloutCoordinator.collect()\x1b[39m (pid=5872, actor_id=02, repr=<workers.actors.coordinator.X object>)\n"
    '  File "/lib/concurrent/futures/_base.py", line 449, in result\n    return self.__get_result()\n'
    "           ^^^^^^^^^^^^^^^^^^^\n"
    "ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: PolicyWorker\n"
    "\nThe above exception was the direct cause of the following exception:\n\n"
    "\x1b[36mray::RolloutCoordinator.collect()\x1b[39m (pid=5872)\n    ) from error\n"
    "workers.protocol.WorkerLost: policy-planner died; a new attempt starts from the last checkpoint\n"
)


def test_a_ray_tracebacks_reason_is_its_last_message() -> None:
    told = "workers.protocol.WorkerLost: policy-planner died; a new attempt starts from the last checkpoint"
    assert reason(WRAPPED) == told


def test_a_python_tracebacks_reason_is_its_last_message() -> None:
    text = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nValueError: two\nlines'
    assert reason(text) == "ValueError: two\nlines"


@pytest.mark.parametrize(
    "text", ["", "a bug", "two\nlines\tand a tab", "Gruß: 3 × 4", "error: no such model"]
)
def test_plain_text_is_unchanged(text: str) -> None:
    assert reason(text) == text


def test_terminal_codes_and_invisible_characters_are_removed() -> None:
    assert (
        plain("\x1b[31mred\x1b[0m \x1b]0;title\x07and \x1b]8;;http://x\x1b\\link\r\n\x00\x07end")
        == "red and link\nend"
    )


def test_a_long_reason_is_cut_at_the_limit() -> None:
    told = reason("x" * 100_000)
    assert len(told) == LONGEST_REASON and told.endswith("…")

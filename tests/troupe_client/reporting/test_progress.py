"""Progress is N of N, whether a program counts its steps from 0 or from 1, gives them or not, or goes on."""

import pytest

from troupe_client.documents.descriptions import LARGEST_STEP
from troupe_client.reporting.client import Progress


@pytest.mark.parametrize(
    ("steps", "total", "completed"),
    [
        (range(6), 6, 6),
        (range(1, 7), 6, 6),
        (range(7), 6, 6),  # an evaluation before the first step
        (range(9), 6, 9),
        (range(1, 8), 0, 7),
        ([5, 10, 15], 15, 15),
        ([0, 1, 2, 1], 0, 3),
        ([-3], 0, 0),
        ([2**63 - 1], 0, LARGEST_STEP),
    ],
)
def test_steps_of_a_new_run(steps: range, total: int, completed: int) -> None:
    progress = Progress(total)
    assert [progress.note(step, committed=True) for step in steps][-1] == completed


def test_a_step_is_complete_when_it_is_committed() -> None:
    progress = Progress(2)
    noted = [
        progress.note(0, committed=False),
        progress.note(0, committed=True),
        progress.note(1, committed=False),
    ]
    assert noted == [0, 1, 1]


@pytest.mark.parametrize(("steps", "completed"), [((9, 19, 29), 30), ((10, 20, 30), 30), ((10, 20), 20)])
def test_the_end_as_planned_completes_the_last_step(steps: tuple[int, ...], completed: int) -> None:
    progress = Progress(30)
    for step in steps:
        progress.note(step, committed=True)
    assert progress.end() == completed


@pytest.mark.parametrize(
    ("completed", "next_step", "step", "then"),
    [(10, 10, 10, 11), (10, 11, 11, 11), (10, 10, 5, 6), (10, 11, 5, 5)],
)
def test_a_resumed_run_counts_as_before(completed: int, next_step: int, step: int, then: int) -> None:
    progress = Progress(20, completed, next_step)
    assert progress.completed == completed and progress.note(step, committed=True) == then

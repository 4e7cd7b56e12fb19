"""Checkpoints as drivers report them, and the one to resume from."""

import random
from typing import Any

import pytest
from django.utils import timezone

from webapp.checkpoints.models import Checkpoint
from webapp.checkpoints.services import (
    checkpoint_latest,
    checkpoint_to_resume,
    checkpoints_list,
    checkpoints_store,
)
from webapp.runs.models import Attempt, LogLine, Run
from webapp.runs.selectors import attempts_of
from workers.telemetry.events import CheckpointEvent


def test_both_choices_are_equal_for_any_history(run: Run) -> None:
    draw, chosen = random.Random(0), set()
    for _ in range(40):
        run.attempts.all().delete()
        run.checkpoints.all().delete()
        for number in range(1, draw.randint(2, 4)):
            resumed = draw.choice([0, 0, 10, 20])
            Attempt.objects.create(
                run=run, number=number, submission_id=f"{run.pk}-{number}", resumed_iteration=resumed,
                resumed_from=f"checkpoints/iteration-{resumed:06}" if resumed else "",
            )  # fmt: skip
            for iteration in draw.sample([10, 20, 30, 40], draw.randint(0, 3)):
                Checkpoint.objects.create(
                    run=run, attempt=number, iteration=iteration, path=f"{number}-{iteration}", size=1, time=timezone.now(),
                    cursor=1, metrics={}, removed=draw.random() < 0.3, damaged="bad" if draw.random() < 0.2 else "",
                )  # fmt: skip
        wanted = checkpoint_latest(run)
        assert checkpoint_to_resume(checkpoints_list(run), attempts_of(run)) == wanted
        chosen.add(wanted and (wanted.attempt, wanted.iteration))
    assert len(chosen) > 4 and None in chosen


def written(iteration: int, **fields: Any) -> CheckpointEvent:
    base = {
        "type": "checkpoint", "run": "r", "attempt": 1, "producer": "p", "seq": iteration, "time": 1000.0 + iteration,
        "iteration": iteration, "path": f"checkpoints/iteration-{iteration:06d}", "bytes": 100 * iteration,
    }  # fmt: skip
    return CheckpointEvent.model_validate(base | fields)


def rows(run: Run, *columns: str) -> list[Any]:
    found = Checkpoint.objects.filter(run=run).order_by("iteration")
    return list(found.values_list(*columns, flat=len(columns) == 1))


def test_facts_are_kept_and_numbers_that_json_lacks_are_words(run: Run) -> None:
    checkpoints_store(run, 7, [written(10, metrics={"eval/success": 0.5, "loss": "NaN", "kl": "-Infinity"})])
    row = Checkpoint.objects.get(run=run)
    assert (row.iteration, row.size, row.cursor, row.path) == (10, 1000, 7, "checkpoints/iteration-000010")
    assert row.metrics == {"eval/success": 0.5, "loss": "NaN", "kl": "-Infinity"}
    assert row.time.timestamp() == 1010.0


def test_one_is_the_best(run: Run) -> None:
    checkpoints_store(run, 1, [written(10, best=True), written(20)])
    assert rows(run, "best") == [True, False]
    checkpoints_store(run, 2, [written(30, best=True)])
    assert rows(run, "best") == [False, False, True]
    assert rows(run, "cursor") == [2, 1, 2], "who watches is told of the one that is best no more"


def test_a_removed_one_stays_in_the_list_with_its_facts(run: Run) -> None:
    checkpoints_store(run, 1, [written(10, metrics={"eval/success": 0.5}), written(20)])
    checkpoints_store(run, 2, [written(10, removed=True, bytes=0)])
    assert rows(run, "iteration", "removed", "size", "metrics") == [
        (10, True, 1000, {"eval/success": 0.5}),
        (20, False, 2000, {}),
    ]
    assert [row.iteration for row in checkpoints_list(run)] == [20, 10]


def test_the_latest_that_is_still_there_is_resumed_from(run: Run) -> None:
    assert checkpoint_latest(run) is None
    checkpoints_store(run, 1, [written(10), written(20), written(20, removed=True)])
    latest = checkpoint_latest(run)
    assert latest is not None
    assert latest.iteration == 10


def test_an_iteration_that_is_replayed_is_there_again(run: Run) -> None:
    checkpoints_store(run, 1, [written(10), written(10, removed=True)])
    checkpoints_store(run, 2, [written(10, attempt=2)])
    assert rows(run, "attempt", "removed", "size") == [(2, False, 1000)]


@pytest.mark.parametrize(
    "path",
    [
        "../x", "/etc", "a/../../b", "a/..", "..", ".", "", "a//b", "a/", "./a", "a\\..\\b", "a\0b", "/", "~/../..", "a b", "a\n",
        'a"; filename="evil.html', "q\r\nX-Inj: 1", "ünicode",
    ],
)  # fmt: skip
def test_paths_that_are_no_plain_names_are_not_recorded(path: str, run: Run) -> None:
    checkpoints_store(run, 1, [written(10, path=path), written(20)])
    assert rows(run, "iteration") == [20]
    line = LogLine.objects.get()
    assert line.level == "warning" and "was not recorded: use a path below the run's folder" in line.message

"""Early stopping: when it is due, and a run that it ends."""

from pathlib import Path

import pytest

from tests.workers.running import events, small_config, small_networks
from training_core.checkpoints import checkpoints
from workers.driver.attempt import run_attempt
from workers.driver.early_stopping import EarlyStopping
from workers.protocol import Attempt


def stopping(patience: int, min_delta: float = 0.0) -> EarlyStopping:
    config = small_config(Path("m"), run__early_stopping=patience, run__min_delta=min_delta)
    return EarlyStopping(config)


@pytest.mark.parametrize(
    ("patience", "min_delta", "values", "end"),
    [
        (2, 0.0, [0.1, 0.2, 0.3], None),
        (2, 0.0, [0.1, 0.3, 0.2, 0.3], 4),  # an equal value is no improvement
        (2, 0.0, [0.1, 0.3, None, None, 0.2, None, 0.1], 7),  # iterations without a measurement do not count
        (2, 0.0, [0.5, 0.4, 0.6, 0.5, 0.4], 5),
        (2, 0.25, [0.0, 0.125, 0.25, 0.375, 0.5], 3),  # 0.25 does not exceed 0 by more than 0.25
        (2, 0.25, [0.0, 0.125, 0.375, 0.5, 0.625], 5),
        (1, 0.0, [-3.0, -2.0, -2.5], 3),
        (0, 0.0, [0.5, 0.4, 0.3, 0.2], None),
    ],
)
def test_a_run_ends_after_measurements_without_improvement(
    patience: int, min_delta: float, values: list[float | None], end: int | None
) -> None:
    early = stopping(patience, min_delta)
    reasons = [early.record(iteration, value) for iteration, value in enumerate(values, 1)]
    ended = [iteration for iteration, reason in enumerate(reasons, 1) if reason]
    assert ended[:1] == ([end] if end else [])


def test_a_metric_that_is_never_measured_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    early = stopping(2)  # evaluated after every iteration
    assert not any(early.record(iteration, None) for iteration in range(1, 9))
    assert [record.getMessage().count("eval/success") for record in caplog.records] == [1]


def test_a_run_finishes_early_and_after_a_resume_at_the_same_iteration(tmp_path: Path) -> None:
    config = small_networks(
        "spread_mappo",
        run__iterations=6,
        run__early_stopping=2,
        run__min_delta=1e9,
        evaluation__every=1,
        evaluation__episodes=4,
        evaluation__probes=1,
        checkpoint__every=2,
    )
    first, resumed = tmp_path / "first", tmp_path / "resumed"
    assert run_attempt(Attempt(config, "r", 1, first, tmp_path), local=True) == 0
    start = first / "checkpoints" / "iteration-000002"
    assert run_attempt(Attempt(config, "r", 2, resumed, tmp_path, start), local=True) == 0
    endings = [events(first, "status")[-1], events(resumed, "status", 2)[-1]]
    assert [(event["state"], event["iteration"]) for event in endings] == [("finished", 3), ("finished", 3)]
    assert endings[0]["message"] == endings[1]["message"] and "eval/return" in endings[0]["message"]
    assert max(checkpoints(first / "checkpoints")) == 3, "the last iteration has a checkpoint"

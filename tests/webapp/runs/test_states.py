"""The table of states, every pair; and the one place that changes a run's state."""

import itertools
import re

import pytest

from tests.architecture.source import modules
from webapp.runs.lifecycle import run_event, run_move, run_reason_set, runs_locked
from webapp.runs.models import Run, RunSource, RunState
from webapp.runs.states import TransitionRefused, allowed, check

ALLOWED = {
    "draft": "queued",
    "queued": "starting stopped paused failed",
    "starting": "running stopping queued finished stopped paused failed",
    "running": "stopping queued finished stopped paused failed",
    "stopping": "stopped paused finished failed",
    "paused": "queued",
    "stopped": "queued",
    "failed": "queued",
    "finished": "",
}
OF_CLIENTS = {
    "running": "stopping finished stopped paused failed", "stopping": "running stopped finished paused failed",
    "paused": "running", "stopped": "running", "failed": "running", "finished": "running",
}  # fmt: skip


@pytest.mark.parametrize(("before", "after"), list(itertools.product(RunState.values, repeat=2)))
def test_every_pair(before: str, after: str) -> None:
    launched = Run(state=before)
    assert allowed(launched, RunState(after)) == (after in [before, *ALLOWED[before].split()])
    external = Run(state=before, source=RunSource.CLIENT)
    assert allowed(external, RunState(after)) == (after in [before, *OF_CLIENTS.get(before, "").split()])


def test_a_refusal_is_a_sentence() -> None:
    with pytest.raises(TransitionRefused, match="a run that is finished cannot be resumed"):
        check(Run(state="finished"), RunState.QUEUED, "resumed")


def test_a_move_is_saved_and_sent_once(run: Run) -> None:
    sent: list[str] = []

    def note(event: str, **_: object) -> None:
        sent.append(event)

    run_event.connect(note)
    try:
        locked = runs_locked().get(pk=run.pk)
        run_move(locked, RunState.STARTING)
        run_move(locked, RunState.FAILED, "no such model", stop_requested="")
        run_move(locked, RunState.FAILED, "no such model folder")
        with pytest.raises(TransitionRefused):
            run_move(locked, RunState.RUNNING)
    finally:
        run_event.disconnect(note)
    stored = Run.objects.get(pk=run.pk)
    assert sent == ["run.failed"]
    assert (stored.state, stored.reason) == ("failed", "No such model folder.") and stored.ended_at
    run_move(runs_locked().get(pk=run.pk), RunState.QUEUED)
    assert Run.objects.get(pk=run.pk).ended_at is None


def test_an_unchanged_reason_is_not_written_again(run: Run, django_assert_num_queries: object) -> None:
    run_reason_set(run, "waits for 2 GPUs")
    with django_assert_num_queries(0):  # type: ignore[operator]
        run_reason_set(run, "waits for 2 GPUs")
    assert Run.objects.get(pk=run.pk).reason == "Waits for 2 GPUs."


def test_only_the_lifecycle_writes_states() -> None:
    writes = re.compile(r"\brun\.state\b[^=\n(]*(?<![=!<>])=(?!=)")
    found = {
        name
        for name, path in modules().items()
        if name.startswith("webapp") and writes.search(path.read_text())
    }
    assert found == {"webapp.runs.lifecycle"}

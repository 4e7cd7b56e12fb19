"""The table of states: every pair, allowed or refused."""

import itertools

import pytest

from webapp.runs.models import RunState
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


@pytest.mark.parametrize(("before", "after"), list(itertools.product(RunState.values, repeat=2)))
def test_every_pair(before: str, after: str) -> None:
    assert allowed(before, after) == (after in ALLOWED[before].split())


def test_a_refusal_is_a_sentence() -> None:
    with pytest.raises(TransitionRefused, match="a run that is finished cannot be resumed"):
        check("finished", "queued", "resumed")

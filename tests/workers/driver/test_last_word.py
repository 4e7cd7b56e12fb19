"""What a failed attempt says last: whether another one would help."""

from pathlib import Path

import pytest

from tests.workers.running import events, small_config
from workers.driver.attempt import FAILED, run_attempt
from workers.driver.local_backends import LocalBackend
from workers.protocol import Attempt, Updated, WorkerLost


@pytest.mark.parametrize(
    ("error", "facts"), [(WorkerLost("update-executor died"), {"retry": True}), (ValueError("a bug"), {})]
)
def test_only_a_lost_worker_asks_for_another_attempt(
    error: Exception,
    facts: dict[str, bool],
    little_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fail(self: LocalBackend, iteration: int) -> Updated:
        raise error

    monkeypatch.setattr(LocalBackend, "update", fail)
    folder = tmp_path / "run"
    assert run_attempt(Attempt(small_config(little_model), "local", 1, folder, folder), local=True) == FAILED
    last = events(folder, "status")[-1]
    assert (last["state"], last["facts"]) == ("failed", facts)
    assert str(error) in last["message"]

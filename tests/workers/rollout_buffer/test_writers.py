"""A thousand writers at once, a reader, and a service that is killed half-way: nothing lost, nothing twice."""

import asyncio
from pathlib import Path

import pytest

from tests.benchmarks.rollout_buffer import GROUP, open_files, play
from tests.workers.rollout_buffer.serving import Service


@pytest.mark.extended
def test_a_thousand_writers_lose_no_record_if_the_service_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_files()
    monkeypatch.setenv("TROUPE_BUFFER_TOKEN", "the same before and after")
    service = Service(tmp_path, "--group-size", str(GROUP)).start()
    outcome = asyncio.run(play(service, writers=1000, each=2, kill=True))
    assert len(outcome.written) == 2000
    assert set(outcome.read) == outcome.written
    assert max(outcome.read.values()) == 1
    with service.client() as client:
        stats = client.get("/stats").json()["data"]
    assert (stats["total_written"], stats["total_read"], stats["groups_dropped"]) == (2000, 2000, 0)
    service.stop()

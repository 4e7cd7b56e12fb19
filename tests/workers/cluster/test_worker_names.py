"""Names of workers, from a table of actors that grows."""

from typing import Any

import pytest

from workers.cluster.worker_output import WorkerNames


class Table:
    """Ray's table of actors in this test: the process ids of environment-0, one for each of its lives."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.reads = 0

    def read(self, names: WorkerNames) -> None:
        self.reads += 1
        names._looked = 1e9  # just now
        names.known |= {("127.0.0.1", pid): "environment-0" for pid in self.pids}


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> Table:
    made = Table()
    monkeypatch.setattr(WorkerNames, "read", lambda names: made.read(names))
    return made


def test_a_new_process_is_looked_up_at_once(table: Table) -> None:
    names: Any = WorkerNames("run-1")
    for pid in (11, 12):
        table.pids.append(pid)
        assert names.of(("127.0.0.1", pid)) == "environment-0"
    assert table.reads == 2


def test_a_process_without_a_name_is_not_looked_up_for_each_line(table: Table) -> None:
    names = WorkerNames("run-1")
    assert {names.of(("127.0.0.1", 99)) for _ in range(100)} == {"process 99"}
    assert table.reads == 1

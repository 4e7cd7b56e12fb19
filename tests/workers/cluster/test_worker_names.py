"""Names of workers, from a table of actors that grows."""

from typing import Any

import pytest

pytestmark = pytest.mark.ray


class Table:
    """Ray's table of actors in this test: the process ids of environment-0, one for each of its lives."""

    def __init__(self) -> None:
        self.pids: list[int] = []
        self.reads = 0

    def read(self, names: Any) -> None:
        self.reads += 1
        names._looked = 1e9  # just now
        names.known |= {("127.0.0.1", pid): "environment-0" for pid in self.pids}


@pytest.fixture
def table(ray_cluster: None) -> Table:
    return Table()


@pytest.fixture
def names(table: Table, monkeypatch: pytest.MonkeyPatch) -> Any:
    from workers.cluster.worker_output import WorkerNames  # imports Ray, which the cluster does first

    monkeypatch.setattr(WorkerNames, "read", lambda names: table.read(names))
    return WorkerNames("run-1")


def test_a_new_process_is_looked_up_at_once(table: Table, names: Any) -> None:
    for pid in (11, 12):
        table.pids.append(pid)
        assert names.of(("127.0.0.1", pid)) == "environment-0"
    assert table.reads == 2


def test_a_process_without_a_name_is_not_looked_up_for_each_line(table: Table, names: Any) -> None:
    assert {names.of(("127.0.0.1", 99)) for _ in range(100)} == {"process 99"}
    assert table.reads == 1

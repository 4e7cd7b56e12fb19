"""The output of workers reaches the run's log under their names, also the last words of a killed one."""

from pathlib import Path
from threading import current_thread
from typing import Any

import pytest

from tests.workers.driver.test_custom import OWN, attempt, own
from tests.workers.running import events
from workers.driver.attempt import FAILED, run_attempt
from workers.telemetry.output import OF_WORKERS, ProcessOutput

pytestmark = pytest.mark.ray


@pytest.mark.extended
def test_a_killed_worker_s_last_words_are_in_the_log(
    ray_cluster: None, little_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[tuple[str, str]] = []
    report = ProcessOutput.lines

    def lines_of(output: ProcessOutput, source: str, stream: str, lines: Any) -> None:
        threads.append((source, current_thread().name))
        report(output, source, stream, lines)

    monkeypatch.setattr(ProcessOutput, "lines", lines_of)
    tree = own(little_model)
    tree["environment"] |= {"path": f"{OWN}:Talk", "args": {"word": "die"}}
    tree["resources"] = {"environment_workers": 1}
    assert run_attempt(attempt(tmp_path, tree), local=False) == FAILED
    lines = [(line["source"], line["level"], line["message"]) for line in events(tmp_path, "log")]
    last = [line for line in lines if line[2] == "the last words"]
    assert len(last) == 6, "the worker and its five replacements"
    assert set(last) == {("environment-0", "output", "the last words")}
    assert ("environment-0", OF_WORKERS) in threads, "all lines were read at the end"
    assert ("environment-0", "output", "token=[redacted] is a secret") in lines
    errors = [text for source, level, text in lines if source == "environment-0" and level == "error"]
    assert errors and all(text.endswith("ValueError: printed, not raised") for text in errors)


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
    from workers.driver.worker_output import WorkerNames  # imports Ray, which the cluster does first

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


def test_lines_are_reported_under_the_worker_s_name(table: Table, names: Any) -> None:
    from workers.driver.worker_output import WorkerOutput

    heard: list[Any] = []
    output = WorkerOutput("run-1", lambda *line: heard.append(line))
    table.pids.append(11)
    batch = {"ip": "127.0.0.1", "is_err": False, "lines": ["one", "two"]}
    output._emit(batch | {"pid": "11"})
    output._emit(batch | {"pid": "raylet"})
    assert heard == [("environment-0", "stdout", ["one", "two"])]


def test_lines_that_ray_has_not_sent_are_read_from_its_files(
    names: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from workers.driver.worker_output import WorkerOutput

    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "worker-ab-01-11.out").write_text(":job_id:01\none\ntwo\nthe last words\n")
    (tmp_path / "worker-cd-01-12.out").write_text("of another process\n")
    monkeypatch.setattr("workers.ray_private.folder_of_logs", lambda: tmp_path)
    output = WorkerOutput("run-1", lambda *line: None)
    output._emit({"ip": "127.0.0.1", "pid": "11", "is_err": False, "lines": ["one", "two"]})
    assert list(output._rest(("127.0.0.1", 11))) == [("stdout", ["the last words"])]

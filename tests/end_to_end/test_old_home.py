"""A data folder and database of an earlier version open: runs, curves, transcripts, checkpoints; its runs resume."""

import json
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import SOCKETS
from tests.end_to_end.running_stack import RunningStack
from tests.golden.home import ANSWERS, ARCHIVE, DUMP, Api, answers
from webapp.stack.postgres import PostgresServer

pytestmark = [pytest.mark.stack, pytest.mark.extended, pytest.mark.timeout(1800)]


@pytest.fixture
def stack(tmp_path: Path, servers: PostgresServer) -> Iterator[RunningStack]:
    """The stack of today on the data of then."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # absent before Python 3.11.4
        archive.extractall(tmp_path)
    with servers.connect("postgres") as connection:
        connection.execute("CREATE DATABASE old_home")
    url = f"postgres://troupe@/old_home?host={SOCKETS}"
    subprocess.run(
        [servers.binaries / "pg_restore", "--no-owner", "-d", url, tmp_path / DUMP],
        check=True,
        capture_output=True,
    )
    stack = RunningStack(tmp_path, DATABASE_URL=url)
    try:
        yield stack.start()
    finally:
        stack.remove()


def test_an_old_home_opens_and_its_runs_resume(stack: RunningStack) -> None:
    told: dict[str, Any] = json.loads((stack.home / ANSWERS).read_text())
    api = Api(stack)
    assert {run: answers(api, run) for run in told} == told
    wanted = {run: answer["iteration"] + 2 for run, answer in told.items()}
    for run, iterations in wanted.items():
        api.post(f"/runs/{run}/resume/", {"overrides": {"run.iterations": iterations}})
    stack.until(lambda: all(api.get(f"/runs/{run}/")["state"] == "finished" for run in told), within=900)
    assert {run: api.get(f"/runs/{run}/")["iteration"] for run in told} == wanted

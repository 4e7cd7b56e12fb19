"""The supervisor, with small real processes."""

import asyncio
import io
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from tests.end_to_end.running_stack import ended
from webapp.stack.home import StackError
from webapp.stack.processes import tagged
from webapp.stack.supervisor import Service, SetupStep, Supervisor, Terminal

FOREVER = "import time\nwhile True: time.sleep(60)"
WITH_CHILD = f"""import subprocess, sys, time
subprocess.Popen([sys.executable, '-c', {FOREVER!r}], start_new_session=True)
{FOREVER}"""
STUBBORN = (
    f"import signal\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('armed', flush=True)\n{FOREVER}"
)


class Stage:
    """A supervisor, what it says, and services by name."""

    def __init__(self, logs: Path) -> None:
        self.said = io.StringIO()
        terminal = Terminal(Console(file=self.said, width=200))
        self.logs = logs
        self.supervisor = Supervisor(f"test-{os.getpid()}-{logs.name}", logs, terminal, first_delay=0.01)

    def service(
        self, name: str, code: str, *, answers: Callable[[], bool] = lambda: True, **facts: object
    ) -> Service:
        command = [sys.executable, "-u", "-c", code]
        return Service(name, command, dict(os.environ), answers, **{"grace": 1.0, **facts})  # type: ignore[arg-type]

    def pid(self, name: str) -> int:
        return self.supervisor.lives[name].process.pid

    async def until(self, happened: Callable[[], bool]) -> None:
        for _ in range(4500):
            if happened():
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"it has not happened; said: {self.said.getvalue()}")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


async def test_what_dies_comes_back(stage: Stage) -> None:
    stage.supervisor.keep(stage.service("a", FOREVER))
    await stage.supervisor.wait_ready("a")
    first = stage.pid("a")
    os.kill(first, signal.SIGKILL)
    await stage.until(lambda: "a" in stage.supervisor.lives and stage.pid("a") != first)
    assert "was ended by SIGKILL" in stage.said.getvalue()
    await stage.supervisor.stop(["a"])
    assert tagged("TROUPE_STACK_ID", stage.supervisor.stack_id) == []


async def test_order(stage: Stage) -> None:
    up = asyncio.Event()
    stage.supervisor.keep(stage.service("second", FOREVER, after=("first",)))
    stage.supervisor.keep(stage.service("first", FOREVER, answers=up.is_set))
    await stage.until(lambda: "first" in stage.supervisor.lives)
    assert "second" not in stage.supervisor.lives
    up.set()
    await stage.supervisor.wait_ready("second")
    await stage.supervisor.stop()


async def test_a_service_that_waits_itself_is_not_probed_before(stage: Stage) -> None:
    probes: list[bool] = []
    prepared = asyncio.Event()

    def answers() -> bool:
        probes.append(prepared.is_set())
        return True

    stage.supervisor.keep(stage.service("waiting", FOREVER, answers=answers, waits_for=("first",)))
    stage.supervisor.keep(stage.service("first", FOREVER, answers=prepared.is_set))
    await stage.until(lambda: {"first", "waiting"} <= stage.supervisor.lives.keys())
    assert probes == []
    prepared.set()
    await stage.supervisor.wait_ready("waiting")
    assert all(probes)
    await stage.supervisor.stop()


async def test_what_never_comes_up_is_an_error_with_its_last_words(stage: Stage) -> None:
    code = "import sys\nsys.exit('the disk is made of cheese')"
    task = stage.supervisor.keep(stage.service("a", code, answers=lambda: False))
    with pytest.raises(StackError, match="made of cheese"):
        await asyncio.wait_for(task, 90)
    await stage.supervisor.stop()


async def test_a_service_that_fails_to_start_is_reported_with_its_log(stage: Stage) -> None:
    (stage.logs / "a.log").write_text("ERROR of a life long ago\n")
    code = "import os, signal\nprint('I begin', flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    task = stage.supervisor.keep(stage.service("a", code, answers=lambda: False))
    with pytest.raises(StackError) as told:
        await asyncio.wait_for(task, 90)
    await stage.supervisor.stop()
    assert "did not come up (it was ended by SIGKILL): I begin" in str(told.value)
    assert "long ago" not in stage.said.getvalue() + str(told.value)


async def test_what_must_be_done_before_a_start_is_done_before_each(stage: Stage) -> None:
    begun: list[bool] = []

    def before() -> None:
        begun.append("a" in stage.supervisor.lives)

    stage.supervisor.keep(stage.service("a", FOREVER, before=before))
    await stage.supervisor.wait_ready("a")
    os.kill(stage.pid("a"), signal.SIGKILL)
    await stage.until(lambda: len(begun) == 2 and "a" in stage.supervisor.lives)
    await stage.supervisor.stop()
    assert begun == [False, False], "nothing of the start before is left"


async def test_what_no_longer_answers_is_started_again(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.stack.supervisor.WATCH", 0.05)
    well = [True]
    stage.supervisor.keep(stage.service("a", FOREVER, answers=lambda: well[0], unanswered_limit=0.2))
    await stage.supervisor.wait_ready("a")
    first = stage.pid("a")
    well[0] = False
    await stage.until(lambda: "has not answered" in stage.said.getvalue())
    well[0] = True
    await stage.until(lambda: "a" in stage.supervisor.lives and stage.pid("a") != first)
    assert not psutil.pid_exists(first)
    await stage.supervisor.stop()


async def test_what_ignores_the_signal_is_killed(stage: Stage) -> None:
    stage.supervisor.keep(
        stage.service("a", STUBBORN, answers=lambda: "armed" in (stage.logs / "a.log").read_text())
    )
    await stage.supervisor.wait_ready("a")
    pid = stage.pid("a")
    await asyncio.wait_for(stage.supervisor.stop(["a"]), 90)
    assert not psutil.pid_exists(pid)


async def test_what_owns_its_tree_takes_it_along_even_when_killed(stage: Stage) -> None:
    service = stage.service("a", WITH_CHILD, owns_tree=True)
    stage.supervisor.keep(service)
    await stage.supervisor.wait_ready("a")
    await stage.until(lambda: len(psutil.Process(stage.pid("a")).children()) == 1)
    first, child = stage.pid("a"), psutil.Process(stage.pid("a")).children()[0]
    os.kill(first, signal.SIGKILL)
    await stage.until(lambda: ended(child))
    await stage.supervisor.stop()
    assert tagged("TROUPE_STACK_ID", stage.supervisor.stack_id) == []


async def test_steps_give_their_output_and_their_failures(stage: Stage) -> None:
    step = SetupStep("good", [sys.executable, "-c", "print('{}')"], dict(os.environ))
    assert await stage.supervisor.run(step) == "{}\n"
    bad = SetupStep("bad", [sys.executable, "-c", "import sys; sys.exit('no luck')"], dict(os.environ))
    with pytest.raises(StackError, match="no luck"):
        await stage.supervisor.run(bad)


def test_children_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """`up` killed with -9 leaves nothing: the kernel tells its children."""
    code = f"""
import asyncio, os, sys
from pathlib import Path
from webapp.stack.supervisor import Service, Supervisor, Terminal

async def main():
    supervisor = Supervisor("x", Path({str(tmp_path)!r}), Terminal())
    supervisor.keep(Service("a", [sys.executable, "-c", {FOREVER!r}], dict(os.environ), lambda: True))
    await supervisor.wait_ready("a")
    print(supervisor.lives["a"].process.pid, file=sys.stderr, flush=True)
    os.kill(os.getpid(), 9)

asyncio.run(main())
"""

    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == -9
    with suppress(psutil.NoSuchProcess):
        child = psutil.Process(int(done.stderr.split()[-1]))
        deadline = time.monotonic() + 90
        while not ended(child):
            assert time.monotonic() < deadline, "it outlived its parent"
            time.sleep(0.02)


def test_a_log_that_grew_is_moved_aside(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("webapp.stack.supervisor.LOG_LIMIT", 10)
    (stage.logs / "a.log").write_text("x" * 11)
    descriptor = stage.supervisor._log("a")
    assert (stage.logs / "a.log.1").read_text() == "x" * 11
    os.write(descriptor, b"y" * 12)
    os.close(stage.supervisor._log("a"))
    assert (stage.logs / "a.log.1").read_text() == "y" * 12
    os.write(descriptor, b"z")
    os.close(descriptor)
    assert (stage.logs / "a.log").read_text() == "z", "whoever has it open goes on at its beginning"


@pytest.mark.parametrize("terminal", [False, True], ids=["pipe", "terminal"])
def test_nothing_is_printed_to_closed_output(terminal: bool) -> None:
    reader, writer = os.openpty() if terminal else os.pipe()
    output = io.TextIOWrapper(io.FileIO(writer, "w"), write_through=True)
    up = Terminal(Console(file=output, force_terminal=terminal))
    os.close(reader)
    up.starting("web")
    up.ready("web")
    up.trouble("web", "ended")
    up.say("Stopping")
    up.error("the port is taken")
    up.close()
    output.detach().close()

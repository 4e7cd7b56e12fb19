"""Every try to leave the sandbox, for real. Slow: some of them use up their limits."""

import os
import platform
import shutil
import socket
from collections.abc import Iterator

import pytest

from tests.training_core.sandbox.tries import ALL
from training_core.sandbox.run import Limits, run_program

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(platform.machine() != "x86_64", reason="system calls are numbered as on x86_64"),
]


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A service on loopback that a program might reach."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.mark.parametrize("name", ALL)
def test_no_try_succeeds_and_the_next_program_runs(name: str, port: int) -> None:
    attempt = ALL[name].replace("PORT", str(port))
    ran = run_program(attempt, ["1"], Limits(test_seconds=1.0))[0]
    assert "GOT" not in ran.output, ran
    assert ran.status != "invalid", "the try itself is wrong"
    after = f"import os\nprint(sorted(os.listdir('/tmp')), os.getpriority(os.PRIO_PROCESS, 0))  # {name}"
    assert run_program(after, [""])[0].output == f"[] {os.getpriority(os.PRIO_PROCESS, 0)}\n"


def test_a_successful_try_would_be_seen() -> None:
    assert "GOT" in run_program("import os\nos.stat('/usr')\nprint('GOT')", ["1"])[0].output

"""What a program finds of the jobs before it, and what it leaves for those after it: nothing."""

import os
import shutil
import signal
from contextlib import suppress
from typing import Any

import psutil
import pytest

from tests.training_core.sandbox.tries import HONEST, MEMORY
from training_core.sandbox.run import Limits, Ran, Sandbox, Unanswered, _sandbox, run_program

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")

JOB: dict[str, Any] = {
    "inputs": ["1"],
    "memory": 256 * 2**20,
    "cpu_seconds": 4,
    "file_bytes": 8 * 2**20,
    "test_seconds": 1.0,
    "output_characters": 1000,
}
SPEAKER = "print('MARKED-' + 'OUTPUT-' + input())\n# MARKED-PROGRAM"
MARKS = MEMORY.replace("PATTERN", "b'MAR' + b'KED-[A-Z0-9-]+'")
FRAMES = """
import gc, sys
seen, frame = [], sys._getframe()
while frame:
    seen += [str(value) for value in frame.f_locals.values()]
    frame = frame.f_back
seen += [repr(each) for each in gc.get_objects() if type(each) in (str, bytes, bytearray, list, tuple, dict)]
print(sorted(each[:200] for each in seen if 'MAR' + 'KED-' in each and 'find-this' not in each))
# find-this
"""


def only(program: str, given: str = "1", **limits: float) -> Ran:
    return run_program(program, [given], Limits(**limits))[0]  # type: ignore[arg-type]


def job(program: str) -> dict[str, Any]:
    return JOB | {"program": program}


def test_memory_holds_nothing_of_the_job_before() -> None:
    assert only(SPEAKER, "MARKED-INPUT-7").output == "MARKED-OUTPUT-MARKED-INPUT-7\n"
    ran = only(f"{MARKS}\nprint(len(seen) > 1000, sorted(found))", "2", test_seconds=8.0)
    assert ran.output == "True []\n", ran


def test_the_search_of_memory_finds_what_is_there() -> None:
    ran = only(f"{MARKS}\nprint(b'MARKED-OWN-INPUT' in found)", "MARKED-OWN-INPUT", test_seconds=8.0)
    assert ran.output == "True\n", ran


def test_frames_and_objects_hold_nothing_of_the_job_before() -> None:
    assert only(SPEAKER, "MARKED-INPUT-8").status == "ok"
    assert only(FRAMES).output == "[]\n"


def test_a_program_is_alone_in_its_namespace() -> None:
    seen = "import os\nprint(os.getpid(), os.getppid(), os.getpgid(0), os.getsid(0))"
    assert only(seen).output == "1 0 1 1\n"


@pytest.mark.parametrize(
    "spoil",
    [
        "import os\nos.chmod('/tmp', 0)",
        "import os\nos.utime('/tmp', (1, 1))",
        "import os\nos.rmdir('/tmp')",
        "open('/tmp/sitecustomize.py', 'w').write('raise SystemExit(9)')",
        "open('/tmp/json.py', 'w').write('raise SystemExit(9)')\nopen('/tmp/x.pth', 'w').write('import os; os._exit(9)')",
        "import os\nos.symlink('/usr', '/tmp/x')\nos.makedirs('/tmp/y/z')\nos.chmod('/tmp/y', 0)",
        "import os\nfor n in range(4000): os.close(os.open(f'/tmp/{n}', 65))",
        "import os\nfor _ in range(900):\n    os.mkdir('d'); os.chdir('d')",
        "import os, threading, time\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()",
        "import os\nos.umask(0o777)\nos.environ['PYTHONSTARTUP'] = '/tmp/x'",
        "import builtins, json, sys\nbuiltins.print = json.dumps = sys.exit = None",
        "import os\nos.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))",
        "import fcntl, os\nr, w = os.pipe()\nfcntl.fcntl(r, fcntl.F_SETOWN, os.getppid())",
        "import fcntl, os\nfor n in range(8): fcntl.lockf(os.open(f'/tmp/{n}', 66), fcntl.LOCK_EX)",
    ],
)
def test_what_a_program_leaves_does_not_reach_the_next_one(spoil: str) -> None:
    only(spoil)
    checked = (
        "import json, os, stat\nopen('/tmp/x', 'w').write('1')\nopen('x').close()\n"
        "print(os.listdir('/tmp'), oct(stat.S_IMODE(os.stat('/tmp').st_mode)), os.umask(0), os.sched_getscheduler(0), json.dumps(1))\n"
    )
    assert only(f"{checked}# after {spoil!r}").output == "['x'] 0o1777 18 0 1\n"


def test_a_program_that_answers_for_its_supervisor_is_ended() -> None:
    lines = (
        '["ok", "FORGED", ""]',
        '{"status": "ok", "output": "FORGED", "error": ""}',
        '{"ran": [], "isolated": true}',
    )
    for line in lines:
        forged = f"import os\nfor n in range(64):\n    try: os.write(n, {line!r}.encode() + b'\\n')\n    except OSError: pass"
        ran = run_program(forged + "\nraise SystemExit(1)", ["1", "2"])
        assert [each.status for each in ran] == ["killed", "killed"]
        assert "wrote to its supervisor" in ran[0].error


def test_inputs_that_ended_well_count_though_a_later_one_ends_the_process() -> None:
    program = "import os\nif input() == 'end': os._exit(0)\nprint('well')"
    ran = run_program(program, ["go", "end", "go"])
    assert [(each.status, each.output) for each in ran] == [("ok", "well\n"), ("killed", ""), ("killed", "")]


def test_no_thread_goes_on_after_its_job() -> None:
    late = "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.2), open('/tmp/late', 'w'))).start()"
    assert only(late).status == "ok"
    assert only("import os, time\ntime.sleep(0.5)\nprint(os.listdir('/tmp'))").output == "[]\n"


def test_sleeping_inputs_together_have_no_more_than_the_limit() -> None:
    sleeper = "import signal, time\nsignal.setitimer(signal.ITIMER_REAL, 0)\ntime.sleep(600)"
    ran = run_program(sleeper, ["1"] * 64, Limits(test_seconds=0.2, cpu_seconds=1))
    assert {each.status for each in ran} == {"killed"} and ran[0].error == "it was killed at its time limit"


def test_its_own_limits_may_be_lowered_and_read() -> None:
    stack = "import resource as r\nr.setrlimit(r.RLIMIT_STACK, (1 << 20, 1 << 20))\nprint(r.getrlimit(r.RLIMIT_STACK))"
    assert only(stack).output == "(1048576, 1048576)\n"


@pytest.mark.parametrize("program", HONEST)
def test_honest_programs_find_what_they_need(program: str) -> None:
    ran = only(program)
    assert (ran.output, ran.error) == ("done\n", "")


def test_without_namespaces_each_job_has_a_sandbox_of_its_own() -> None:
    sandbox = Sandbox(8 * 2**20, namespaces=False)
    try:
        for number in range(3):
            told = "import os\nprint(os.listdir('/tmp'), input())\nopen('/tmp/left', 'w')"
            assert sandbox.ask(job(told) | {"inputs": [str(number)]}, 5.0)[0]["output"] == f"[] {number}\n"
            assert sandbox._process is None
    finally:
        sandbox.close()


def test_a_job_that_runs_out_of_time_is_not_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    sandbox = Sandbox(8 * 2**20)
    try:
        assert sandbox.ask(job("print('up')"), 5.0)[0]["output"] == "up\n"
        assert sandbox._process is not None
        _stop_below(sandbox._process.pid)
        monkeypatch.setattr("training_core.sandbox.run._GRACE", 0.5)
        with pytest.raises(Unanswered, match="the sandbox did not answer in time"):
            sandbox.ask(job("print('late')"), 0.5)
        monkeypatch.setattr("training_core.sandbox.run._GRACE", 20.0)
        assert sandbox.ask(job("print('again')"), 5.0)[0]["output"] == "again\n"
    finally:
        sandbox.close()


def test_a_missing_answer_is_not_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    assert only("print('up')").output == "up\n"
    process = _sandbox(8 * 2**20)._process
    assert process is not None
    _stop_below(process.pid)
    monkeypatch.setattr("training_core.sandbox.run._GRACE", 0.5)
    assert only("print('asked twice')", test_seconds=0.1).error == "the sandbox did not answer in time"
    monkeypatch.setattr("training_core.sandbox.run._GRACE", 20.0)
    assert only("print('asked twice')", test_seconds=0.1).output == "asked twice\n"


def _stop_below(pid: int) -> None:
    """Stop what a process has started, until nothing new is found: they start others meanwhile."""
    stopped: set[int] = set()
    while started := {child.pid for child in psutil.Process(pid).children(recursive=True)} - stopped:
        for child in started:
            with suppress(ProcessLookupError):  # it ends by itself meanwhile
                os.kill(child, signal.SIGSTOP)
        stopped |= started

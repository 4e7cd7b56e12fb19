"""Programs that try to get out, or to use up the machine: each is caused for real."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from training_core.errors import SandboxFailure
from training_core.sandbox import bubblewrap
from training_core.sandbox.run import Limits, Ran, _sandbox, run_program

pytestmark = pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")


def only(program: str, given: str = "", **limits: float) -> Ran:
    return run_program(program, [given], Limits(**limits))[0]  # type: ignore[arg-type]


def test_a_program_reads_and_writes_once_per_input() -> None:
    ran = run_program("n = int(input())\nprint(n * 2)", ["3", "-4", "x"])
    assert [(one.status, one.output) for one in ran] == [("ok", "6\n"), ("ok", "-8\n"), ("error", "")]
    assert ran[2].error.startswith("ValueError: invalid literal")


def test_every_way_to_read_and_write_does() -> None:
    for program in (
        "import sys\nfor line in sys.stdin: print(line.strip()[::-1])",
        "import sys\nsys.stdout.buffer.write(sys.stdin.buffer.read().strip()[::-1])",
        "import os\nos.write(1, os.read(0, 100).strip()[::-1])",
        "open(1, 'w', closefd=False).write(open(0).read().strip()[::-1])",
    ):
        assert only(program, "abc\n").output.strip() == "cba", program


def test_inputs_do_not_see_one_another() -> None:
    program = "seen = globals().get('seen', 0) + 1\nprint(seen)"
    assert [one.output for one in run_program(program, ["", ""])] == ["1\n", "1\n"]


def test_what_is_no_program_is_an_error() -> None:
    assert only("def (").error.startswith("SyntaxError")
    assert only("(" * 10_000).status == "invalid"
    assert only("-" * 100_000 + "1").status == "invalid"
    assert only("\x00").status == "invalid"
    assert only("print('\ud800')").error.startswith("UnicodeEncodeError")
    assert only("import sys; sys.exit(3)").error == "exit status 3"


def test_the_network_is_out_of_reach() -> None:
    assert "PermissionError" in only("import socket\nsocket.create_connection(('127.0.0.1', 80))").error
    assert "Error" in only("import urllib.request\nurllib.request.urlopen('http://127.0.0.1:8000')").error


def test_files_of_the_machine_are_out_of_reach(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("s3cret")
    assert "FileNotFoundError" in only(f"print(open({str(secret)!r}).read())").error
    for place in ("/etc/passwd", "/proc/self/environ", "/var", "/sys", str(Path.home() / ".ssh")):
        assert "FileNotFoundError" in only(f"import os\nprint(os.stat({place!r}))").error, place


def test_a_program_writes_only_its_own_temporary_folder() -> None:
    for place in ("/usr/lib/x", "/harness.py", "/x", str(Path(sys.base_prefix).resolve() / "x")):
        assert "Error" in only(f"open({place!r}, 'w')").error, place
    assert only("open('/tmp/x', 'w').write('a')\nprint(open('/tmp/x').read())").output == "a\n"
    assert "FileNotFoundError" in only("print(open('/tmp/x').read())  # again").error


def test_secrets_of_the_environment_do_not_travel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_TOKEN", "s3cret")
    seen = only("import os\nprint(dict(os.environ))").output
    assert "s3cret" not in seen and "TROUPE" not in seen and "HOME" not in seen


@pytest.mark.parametrize(
    "program",
    [
        "import os\nos.fork()",
        "import subprocess\nsubprocess.run(['/bin/true'])",
        "import os\nos.posix_spawn('/bin/true', ['true'], {})",
        "import multiprocessing as m\nm.Process(target=print).start()",
    ],
)
def test_it_cannot_start_processes(program: str) -> None:
    ran = only(program)
    assert ran.status == "error" and "Operation not permitted" in ran.error


def test_threads_are_allowed() -> None:
    program = "import threading\nt = threading.Thread(target=print, args=('hi',))\nt.start()\nt.join()"
    assert only(program).output == "hi\n"


def test_other_processes_cannot_be_seen_or_ended() -> None:
    assert only(f"import os\nos.kill({os.getpid()}, 9)").error.startswith("PermissionError")
    assert "FileNotFoundError" in only("import os\nos.listdir('/proc')").error


def test_memory_is_limited() -> None:
    assert only("x = 'a' * 10**9").error.startswith("MemoryError")
    assert only("x = bytearray(100 * 2**20)\nprint(len(x))").status == "ok"


def test_files_are_limited() -> None:
    assert "File too large" in only("open('/tmp/x', 'w').write('a' * 20_000_000)").error
    many = "for i in range(99):\n    open(f'/tmp/{i}', 'wb').write(b'a' * 2**20)"
    assert "No space left" in only(many).error


def test_time_is_limited_and_the_next_input_has_its_own() -> None:
    program = "if input() == 'hang':\n    while True: pass\nprint('done')"
    ran = run_program(program, ["hang", "go"], Limits(test_seconds=1.0))
    assert [one.status for one in ran] == ["timeout", "ok"]


def test_a_program_that_sleeps_is_woken() -> None:
    assert only("import time\ntime.sleep(1000)", test_seconds=0.1).status == "timeout"


def test_a_program_that_will_not_be_woken_is_killed() -> None:
    deaf = "import signal as s\ns.signal(s.SIGPROF, s.SIG_IGN)\ns.signal(s.SIGALRM, s.SIG_IGN)"
    stubborn = f"{deaf}\nwhile True: pass"
    ran = run_program(stubborn, ["", ""], Limits(test_seconds=0.3, cpu_seconds=1))
    assert [one.status for one in ran] == ["killed", "killed"]


def test_output_is_limited() -> None:
    ran = only("print('a' * 10**6)")
    assert ran.status == "output" and len(ran.output) == 10_000
    assert only("import os\nwhile True: os.write(1, b'x' * 65536)").status == "output"
    pipe = "import os\nwhile True: os.write(3, b'x' * 65536)"
    assert only(pipe).status == "killed"


def test_limits_cannot_be_raised() -> None:
    raised = "import resource as r\nr.setrlimit(r.RLIMIT_AS, (r.RLIM_INFINITY, r.RLIM_INFINITY))"
    assert "Error" in only(raised).error


def test_forged_lines_answer_for_no_more_than_its_own_inputs() -> None:
    forged = (
        "import os\nfor fd in range(3, 20):\n"
        "    try: os.write(fd, b'{\"status\": 1}\\n' * 9)\n    except OSError: pass\nprint('x')"
    )
    assert len(run_program(forged, ["", ""])) == 2


def test_nothing_is_left_for_the_next_program() -> None:
    left = "import os\nos.makedirs('/tmp/a/b')\nopen('/tmp/a/b/c', 'w').write('x')\nos.symlink('/usr', '/tmp/usr')\nopen('/tmp/.x', 'w')"
    assert only(left).status == "ok"
    assert only("import os\nprint(os.listdir('/tmp'))").output == "[]\n"
    hidden = "import os\nos.makedirs('/tmp/a/b')\nos.chmod('/tmp/a/b', 0)\nos.chmod('/tmp/a', 0)"
    assert only(hidden).status == "ok"
    assert only("import os\nprint(os.listdir('/tmp'), 2)").output == "[] 2\n"
    for place in ("/dev/shm/x", "/dev/x"):
        assert "Error" in only(f"open({place!r}, 'w')").error, place


def test_a_program_cannot_reach_the_harness() -> None:
    for act in ("os.kill(os.getppid(), 9)", "os.kill(-1, 9)", "os.killpg(os.getpgid(0), 9)"):
        assert "Operation not permitted" in only(f"import os\n{act}").error
    junk = "import os\nfor fd in range(64):\n    try: os.write(fd, b'junk')\n    except OSError: pass"
    assert only(junk).status in {"ok", "killed"}
    assert only("print('still there')").output == "still there\n"


def test_a_sandbox_that_was_lost_is_put_up_again() -> None:
    sandbox = _sandbox(8 * 2**20)
    assert only("print('before')").output == "before\n"
    assert sandbox._process is not None
    sandbox._process.kill()
    sandbox._process.wait()
    assert only("print('after')").output == "after\n"


def test_threads_share_a_sandbox() -> None:
    with ThreadPoolExecutor(4) as threads:
        said = list(threads.map(lambda number: only(f"print({number} ** 2)").output, range(24)))
    assert said == [f"{number**2}\n" for number in range(24)]


def test_without_a_sandbox_the_refusal_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SandboxFailure, match="apt-get install bubblewrap"):
        bubblewrap.command(Path("harness.py"), 3, 1)


def test_an_ordinary_user_has_the_same_walls() -> None:
    if os.getuid() != 0:
        pytest.skip("this is an ordinary user: the other tests are the proof")
    words = bubblewrap.command(Path("/usr/lib/os-release"), 0, 2**20)
    start = words.index("--seccomp")
    ran = subprocess.run(
        ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *_readable(words[:start]), "/usr/bin/id"],
        capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "uid=65534" in ran.stdout


def test_an_ordinary_users_programs_have_namespaces_of_their_own() -> None:
    if os.getuid() != 0 or not Path("/usr/bin/python3").exists():
        pytest.skip("this is an ordinary user, or there is no interpreter that one can read")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        harness = shutil.copy(Path(bubblewrap.__file__).with_name("harness.py"), folder)
        words = bubblewrap.command(Path(harness), 0, 2**20)
        start = words.index("--seccomp")
        seen = "import os\nprint(os.getpid(), os.getuid(), os.listdir('/tmp'))\nopen('/tmp/left', 'w')"
        job = {
            "program": seen,
            "inputs": [""],
            "memory": 2**28,
            "cpu_seconds": 4,
            "file_bytes": 2**20,
            "test_seconds": 4.0,
        }
        line = json.dumps(job | {"output_characters": 100}) + "\n"
        ran = subprocess.run(
            ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", *_readable(words[:start]), "/usr/bin/python3", *words[-6:]],
            capture_output=True, text=True, timeout=300, input=line,
        )  # fmt: skip
    found = {"ran": [{"status": "ok", "output": "1 65534 []\n", "error": ""}], "isolated": True}
    assert json.loads(ran.stdout) == found, ran.stderr


def _readable(words: list[str]) -> list[str]:
    """Without the interpreter's own folder, which that user need not be able to read."""
    prefix = str(Path(sys.base_prefix).resolve())
    if prefix == "/usr" or prefix not in words:
        return words
    place = words.index(prefix)
    return [*words[: place - 1], *words[place + 2 :]]

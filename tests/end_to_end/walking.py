"""A reader who types every command and program of a page, in order, in one folder, against a running stack.

What the pages leave to the reader (ids, files, numbers, patience) is in tests/end_to_end/walk_tables.py.
"""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from queue import Empty, Queue
from threading import Thread

import httpx

from tests.architecture.source import ROOT
from tests.docs.fences import Fence, fences, kind

PATIENCE = 300.0
"""Seconds for one command; nothing is asserted on them."""
INTERRUPTED = 130
"""Exit status of a program that Ctrl-C has ended."""
FILE_NAME = re.compile(r"# (\w+\.(?:py|toml))\n")
REQUEST = re.compile(r"^GET (/api/\S+)", re.MULTILINE)
COMMENT = re.compile(r"\s+# .*$")
Substitution = tuple[str, Callable[[re.Match[str]], str]]


@dataclass
class Reader:
    """One page in one folder."""

    page: str
    folder: Path
    environment: dict[str, str]
    substitutions: list[Substitution]
    """Patterns of placeholders, each with its value."""
    shorten: Callable[[str], str]
    """Makes an expensive command cheap."""
    serving: str = ""
    """Pattern of commands that serve until they are interrupted."""
    preludes: Mapping[str, str] = field(default_factory=dict)
    """Lines before a fragment of a program, by the fragment's first line."""
    settle: Callable[[str], None] = lambda command: None
    """Waits before a command until it can be run."""

    def prepare(self) -> None:
        """Make the folder look like a checkout: `.venv`, `manage.py`, the code and `var`."""
        for name in ("manage.py", "docs", "examples", "tests", "training_core", "workers", "webapp"):
            (self.folder / name).symlink_to(ROOT / name)
        (self.folder / ".venv").symlink_to(sys.prefix)
        (self.folder / "var").symlink_to(self.environment["TROUPE_HOME"])

    def walk(self) -> Iterator[str]:
        """Run the blocks of the page; yields what failed, with line and output."""
        for fence in fences(self.page):
            if not fence.reason:
                yield from self._block(fence)

    def _block(self, fence: Fence) -> Iterator[str]:
        if kind(fence) == "shell":
            for line, command in commands(fence):
                self.settle(command)
                yield from self._failed(line, self._typed(command))
        elif kind(fence) == "python":
            yield from self._failed(fence.line, self._program(fence))
        elif kind(fence) == "toml":
            if named := FILE_NAME.match(fence.text):
                (self.folder / named[1]).write_text(fence.text)
        else:
            for address in REQUEST.findall(fence.text):
                yield from self._failed(fence.line, self._request(self._filled(address)))

    def _typed(self, command: str) -> str:
        """Run a command of the page; returns what went wrong, also with its placeholders."""
        try:
            return self._shell(self.shorten(self._filled(command)))
        except (LookupError, AssertionError) as error:
            return f"$ {command}\nwithout a value: {error!r}"

    def _failed(self, line: int, output: str) -> Iterator[str]:
        if output:
            yield f"{self.page}:{line}\n{output}"

    def _filled(self, text: str) -> str:
        for pattern, value in self.substitutions:
            text = re.sub(pattern, value, text)
        return text

    def _shell(self, command: str) -> str:
        """Run a command with what earlier ones exported; returns its output if it failed."""
        exported = self.folder.with_suffix(".exported")
        script = (
            f"set -euo pipefail\nsource {exported} 2> /dev/null || true\n{command}\nexport -p > {exported}\n"
        )
        if self.serving and re.search(self.serving, command):
            return self._served(command)
        done = self._run(["bash", "-c", script])
        return "" if done.returncode == 0 else f"$ {command}\n{done.stdout}"

    def _served(self, command: str) -> str:
        """Start a server, wait for its address, interrupt it; returns its output if it does not end well."""
        with subprocess.Popen(
            ["bash", "-c", f"exec {command}"],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            preexec_fn=lambda: signal.signal(
                signal.SIGINT, signal.SIG_DFL
            ),  # shells ignore it for jobs in the background
        ) as server:
            first = read_within(server, server.stdout.readline, f"$ {command}")
            server.send_signal(signal.SIGINT)
            rest = read_within(server, server.stdout.read, f"$ {command}, after Ctrl-C")
        good = "http://" in first and server.returncode in (0, INTERRUPTED, -signal.SIGINT)
        return "" if good else f"$ {command}\n{first}{rest}"

    def _program(self, fence: Fence) -> str:
        named = FILE_NAME.match(fence.text)
        file = self.folder / (named[1] if named else f"block_{fence.line}.py")
        first = fence.text.partition("\n")[0]
        file.write_text(self.preludes.get(first, "") + self._filled(fence.text))
        done = self._run([sys.executable, str(file)])
        return "" if done.returncode == 0 else f"python {file.name}\n{done.stdout}"

    def _request(self, address: str) -> str:
        headers = {"Authorization": f"Bearer {self.environment['TROUPE_TOKEN']}"}
        url = f"{self.environment['TROUPE_URL']}{address}"
        answer = httpx.get(url, headers=headers, timeout=60, trust_env=False)
        return "" if answer.status_code == httpx.codes.OK else f"GET {address}\n{answer.text[:2000]}"

    def _run(self, command: list[str]) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=PATIENCE,
            check=False,
        )


def read_within(
    server: "subprocess.Popen[str]", read: Callable[[], str], what: str, patience: float = PATIENCE
) -> str:
    """Return what `read` reads from the output of a process. Kills the process and fails if it does not end in `patience` seconds."""
    texts: Queue[str] = Queue()
    Thread(target=lambda: texts.put(read()), daemon=True).start()
    try:
        return texts.get(timeout=patience)
    except Empty:
        server.kill()
        message = f"{what}: no output within {patience:g} s; does it serve, and does it flush its address?"
        raise AssertionError(message) from None


def commands(fence: Fence) -> Iterator[tuple[int, str]]:
    """Commands of a block with their lines; a block with a here-document is one command."""
    if "<<" in fence.text:
        yield fence.line, fence.text
        return
    line = fence.line
    for text in fence.text.replace("\\\n", "\0").splitlines():
        line += 1
        command = COMMENT.sub("", text.replace("\0", " ").removeprefix("$ ")).strip()
        if command and not command.startswith("#"):
            yield line, command
        line += text.count("\0")


def with_fields(command: str, **fields: object) -> str:
    """A command with config fields set; underscores twice stand for dots. Fields that it names are replaced."""
    for name, value in fields.items():
        path = name.replace("__", ".")
        pattern = rf"(?<=\s){re.escape(path)}=\S+"
        if re.search(pattern, command):
            command = re.sub(pattern, f"{path}={value}", command)
        else:
            command += f" {path}={value}"
    return command


def reader_environment(home: Path, url: str, token: str, folder: Path) -> dict[str, str]:
    """Variables of a reader's shell: `troupe`, `python` and `curl` on PATH, and the address and token of the stack."""
    path = f"{Path(sys.prefix) / 'bin'}{os.pathsep}{os.environ['PATH']}"
    own = {
        "PATH": path, "HOME": str(folder), "TROUPE_HOME": str(home), "TROUPE_URL": url, "TROUPE_TOKEN": token,
        "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "TERM": "dumb", "COLUMNS": "200",
        "GIT_AUTHOR_NAME": "reader", "GIT_AUTHOR_EMAIL": "reader@example.org",
        "GIT_COMMITTER_NAME": "reader", "GIT_COMMITTER_EMAIL": "reader@example.org",
    }  # fmt: skip
    kept = {name: os.environ[name] for name in ("LANG", "TMPDIR") if name in os.environ}
    return kept | own


def until(happened: Callable[[], bool], what: str) -> None:
    """Poll. Fails with `what` when the time is up."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline, what
        time.sleep(0.2)

"""A whole stack of its own for a test: `manage.py up` on a fresh home, on free ports, ended with the test."""

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psutil

from webapp.stack.processes import end_processes, tagged
from webapp.stack.servers import free_ports

ROOT = Path(__file__).resolve().parents[2]
STARTUP = 400.0
PATIENCE = 300.0
"""Seconds for what takes a few on a machine that does nothing else; nothing is asserted on them."""
GIVEN = (
    "DATABASE_URL",
    "REDIS_URL",
    "RAY_ADDRESS",
    "TROUPE_SECRET_KEY",
    "TROUPE_SERVER_URL",
    "DJANGO_SETTINGS_MODULE",
)


def title(process: psutil.Process) -> str:
    """A process's command line; empty where it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


def ended(process: psutil.Process) -> bool:
    """Whether a process has ended; an entry in the table may be left of it."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


class RunningStack:
    """One `up` as a child process; `start` returns when pages are served."""

    def __init__(self, home: Path | None = None, **variables: str) -> None:
        self.home = home or Path(tempfile.mkdtemp(prefix="troupe-e2e-", dir="/tmp"))
        if home is None:
            self.home.chmod(0o711)
        self.output = self.home.with_name(f"{self.home.name}.out")
        own = {
            "TROUPE_HOME": str(self.home),
            "TROUPE_PORT": str(free_ports(1)[0]),
            "TROUPE_DEMO": "0",
            "TROUPE_BASE_MODEL": "0",
            "TROUPE_MODEL_FOLDERS": tempfile.gettempdir(),  # tests make models where pytest puts their files
        }
        kept = {name: value for name, value in os.environ.items() if name not in GIVEN}
        self.environment = kept | own | variables
        self.process: subprocess.Popen[bytes] | None = None
        self.facts: dict[str, Any] = {}

    def start(
        self, *, wait: bool = True, within: float = STARTUP, output: int | None = None
    ) -> "RunningStack":
        """Start `up`; with `wait`, at most `within` seconds until /readyz answers 200 and, when Ray is ours, Ray does too.

        output: descriptor to print to, in place of the file `output`.
        """
        with self.output.open("wb") as file:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "manage.py"), "up"],
                env=self.environment,
                stdout=file if output is None else output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        if wait:
            self.until(lambda: self.well(), within)
            self.facts = json.loads((self.home / "stack.json").read_text())
        return self

    @property
    def url(self) -> str:
        """Where the pages are."""
        return str(json.loads((self.home / "local.json").read_text())["url"])

    @property
    def token(self) -> str:
        """The local owner's API token."""
        return str(json.loads((self.home / "local.json").read_text())["token"])

    @property
    def said(self) -> str:
        """What `up` has printed."""
        return self.output.read_text(errors="replace")

    def parts(self) -> dict[str, str]:
        """/readyz; empty while the server does not answer."""
        try:
            answer = httpx.get(f"{self.url}/readyz", timeout=20, trust_env=False)
            return dict(answer.json()["parts"])
        except (OSError, ValueError, KeyError, httpx.HTTPError):
            return {}

    def well(self) -> bool:
        """Whether every part says "ok"."""
        parts = self.parts()
        return bool(parts) and set(parts.values()) <= {"ok", "not used"}

    def part(self, name: str) -> psutil.Process | None:
        """The process that `up` has started under this name, if it lives (Redis overwrites its environment)."""
        assert self.process
        for child in psutil.Process(self.process.pid).children():
            try:
                marked = child.environ().get("TROUPE_STACK_PART") == f"{self.facts['id']}-{name}"
                if marked or f"/{name}.sock" in title(child):
                    return child
            except psutil.Error:
                continue
        return None

    def tree(self) -> list[psutil.Process]:
        """Every process below `up`, and `up`."""
        assert self.process
        up = psutil.Process(self.process.pid)
        return [up, *up.children(recursive=True)]

    def until(self, happened: Callable[[], bool], within: float = PATIENCE) -> None:
        """Poll; fails with what `up` said when it has ended, or the time is up."""
        deadline = time.monotonic() + within
        while not happened():
            assert self.process is None or self.process.poll() is None, f"up has ended:\n{self.said}"
            assert time.monotonic() < deadline, f"nothing within {within} s; {self.parts()}\n{self.said}"
            time.sleep(0.1)

    def stop(self, number: int = signal.SIGINT) -> int:
        """End it as Ctrl-C does. Returns the exit code."""
        assert self.process
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def remove(self) -> None:
        """End it by any means, and delete its files."""
        if self.process and self.process.poll() is None:
            try:
                self.stop()
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait(PATIENCE)
        if self.facts:
            end_processes(tagged("TROUPE_STACK_ID", self.facts["id"]), 2.0)
            shutil.rmtree(self.facts["scratch"], ignore_errors=True)
        shutil.rmtree(self.home, ignore_errors=True)
        self.output.unlink(missing_ok=True)

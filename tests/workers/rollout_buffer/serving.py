"""A rollout buffer service as a separate process."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx

from tests.architecture.source import ROOT


class Service:
    """Started by `start`, ended by `kill` (at once, as a crash does) or `stop`."""

    def __init__(self, home: Path, *options: str) -> None:
        self.home = home
        self._options = options
        self._process: subprocess.Popen[bytes] | None = None
        self.url = self.token = ""

    def start(self, port: int = 0) -> "Service":
        where = self.home / "rollout_buffer.json"
        where.unlink(missing_ok=True)
        words = [
            sys.executable,
            "-m",
            "troupe_client.cli.app",
            "buffer",
            "serve",
            "--port",
            str(port),
            *self._options,
        ]
        variables = os.environ | {"TROUPE_HOME": str(self.home), "PYTHONPATH": str(ROOT)}
        self._process = subprocess.Popen(words, env=variables, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 400
        while True:
            assert self._process.poll() is None, self._process.stderr and self._process.stderr.read()
            assert time.monotonic() < deadline
            if where.exists():
                said = json.loads(where.read_text())
                self.url, self.token = said["url"], said["token"]
                try:
                    with self.client() as client:
                        client.get("/").raise_for_status()
                    return self
                except httpx.TransportError:
                    pass
            time.sleep(0.02)

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def client(self, **options: Any) -> httpx.Client:
        headers = {"Authorization": f"Bearer {self.token}"}
        return httpx.Client(base_url=self.url, headers=headers, trust_env=False, timeout=60, **options)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> str:
        """Its output so far."""
        return self._end(signal.SIGINT)

    def _end(self, number: int) -> str:
        assert self._process is not None and self._process.stderr is not None
        self._process.send_signal(number)
        said = self._process.communicate(timeout=300)[1].decode()
        return said

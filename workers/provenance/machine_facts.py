"""Facts about this machine: host name, operating system, processor, memory, GPUs, Python."""

import csv
import platform
import socket
import subprocess
from pathlib import Path
from typing import Any

import psutil

TIMEOUT = 5.0
_QUERY = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")


def machine_facts() -> dict[str, Any]:
    """Return {"host", "system", "processor", "cores" (logical), "memory" (bytes), "gpus": [{"name", "memory" (bytes),
    "driver"}], "python"}. Reads no environment variables.
    """
    return {
        "host": socket.gethostname(),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": psutil.cpu_count() or 0,
        "memory": psutil.virtual_memory().total,
        "gpus": _gpus(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    """The model of the first processor."""
    try:
        for line in Path("/proc/cpuinfo").read_text(errors="replace").splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "model name":
                return value.strip()
    except OSError:
        pass  # not Linux
    return platform.processor() or platform.machine()


def _gpus() -> list[dict[str, Any]]:
    """NVIDIA GPUs, as their driver reports them; without torch, which the driver process does not import."""
    try:
        answer = subprocess.run(_QUERY, capture_output=True, text=True, check=True, timeout=TIMEOUT).stdout
    except (OSError, subprocess.SubprocessError):
        return []
    rows = [row for row in csv.reader(answer.splitlines(), skipinitialspace=True) if len(row) == 3]
    return [
        {"name": name, "memory": int(memory) << 20 if memory.isdigit() else 0, "driver": driver}
        for name, memory, driver in rows
    ]

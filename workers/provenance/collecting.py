"""Provenance of a launch and of an attempt: command, repositories, machine, packages, and the code and data of the config. Environment
variables are never recorded.

The functions return plain dicts; the server validates them (webapp/provenance/services.py).
"""

import csv
import platform
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil

from workers.provenance.redaction import without_secrets, words_without_secrets
from workers.provenance.repository import repositories

if TYPE_CHECKING:
    from training_core.config.base import Section

ROOT = Path(__file__).resolve().parents[2]
"""Folder that Troupe's packages are imported from."""
TIMEOUT = 5.0
_QUERY = ("nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader,nounits")
PACKAGES = ("troupe", "torch", "transformers", "tokenizers", "safetensors", "numpy", "ray")
OPTIONAL = ("peft", "vllm", "deepspeed", "pettingzoo", "mpe2", "gymnasium", "supersuit", "vmas", "trl")
MOST_INSTALLED = 1000
LONGEST_COMMAND = 4000


def attempt_provenance(config: "Section", home: Path) -> dict[str, Any]:
    """Return {"command", "machine", "repositories", "installed", "code", "data"}.

    Repositories are those of the config's own packages, of the working folder and of Troupe's checkout.
    """
    from workers.provenance.content import (
        code_folders,
        code_of,
        data_of,
    )  # here: `import troupe` needs no configs

    states = repositories([*code_folders(config), ("", Path.cwd()), ("", ROOT)])
    return {
        "command": command_line(sys.argv),
        "machine": machine_facts(),
        "repositories": [state for state in states if "commit" in state] or states[:1],
        "installed": installed(),
        "code": code_of(config),
        "data": data_of(config, home),
    }


def launch_provenance(via: str, source: str = "") -> dict[str, Any]:
    """Return {"via", "command", "machine", "repositories"} of this process. `via`: what launches, for example "command line".
    `source`: a file in the folder of the user's code; default: the working folder.
    """
    folder = Path(source).resolve().parent if Path(source).is_file() else Path.cwd()
    return {
        "via": via,
        "command": command_line(sys.argv),
        "machine": machine_facts(),
        "repositories": repositories([("", folder)]),
    }


def program_provenance() -> dict[str, Any]:
    """Return the provenance of a custom program: its main file, and the installed packages."""
    main = str(getattr(sys.modules.get("__main__"), "__file__", None) or "")
    return launch_provenance("client", main) | {"packages": package_versions(), "installed": installed()}


def package_versions() -> dict[str, str]:
    """Versions of the packages that affect results; read from metadata, so nothing is imported."""
    versions = {name: _version(name) for name in (*PACKAGES, *OPTIONAL)}
    return {name: version for name, version in versions.items() if version}


def installed() -> dict[str, str]:
    """Return distribution -> version of everything that is installed here, from the names of their folders: reading the
    metadata of 200 distributions takes a fifth of a second.
    """
    names = [
        path.stem.split("-")
        for folder in map(Path, dict.fromkeys(sys.path))
        if folder.is_dir()
        for path in folder.glob("*.dist-info")
    ]
    versions = {parts[0]: parts[1] for parts in reversed(names) if len(parts) == 2}
    return dict(sorted(versions.items(), key=lambda pair: pair[0].lower())[:MOST_INSTALLED])


def command_line(words: Sequence[str]) -> str:
    """Return a command as a shell reads it, with the program's name in place of its path, and without secrets."""
    program, *rest = list(words) or [""]
    name = re.sub(r"\.py$", "", Path(program).name)
    module = f"python -m workers.{name}" if Path(program).parent.name == "workers" else Path(program).name
    return without_secrets(shlex.join([*module.split(), *words_without_secrets(rest)]))[:LONGEST_COMMAND]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


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

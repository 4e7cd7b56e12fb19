"""Provenance of a launch: command, repository, machine, packages. Environment variables are never recorded.

The functions return plain dicts; the server validates them (webapp/provenance/services.py).
"""

import re
import shlex
import sys
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from workers.provenance.machine_facts import machine_facts
from workers.provenance.repository import repositories
from workers.provenance.secret_text import without_secrets

PACKAGES = ("troupe", "torch", "transformers", "tokenizers", "safetensors", "numpy", "ray")
OPTIONAL = ("peft", "vllm", "deepspeed", "pettingzoo", "mpe2", "gymnasium", "supersuit", "vmas", "trl")
MOST_INSTALLED = 1000
LONGEST_COMMAND = 4000


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
    return without_secrets(shlex.join([*module.split(), *rest]))[:LONGEST_COMMAND]


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""

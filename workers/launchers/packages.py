"""Troupe's code as one archive for a cluster without access to this checkout: training_core, workers, and users' own packages."""

import hashlib
import io
import os
import zipfile
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from workers.launchers.command import ROOT
from workers.launchers.launcher import LauncherFailure

PACKAGES = ("training_core", "workers")
SUFFIXES = (".py", ".toml", ".json", ".txt", ".typed")
_EPOCH = (1980, 1, 1, 0, 0, 0)


@dataclass(frozen=True)
class CodePackage:
    """A zip archive named after its content, so that the same code is uploaded once."""

    name: str
    content: bytes


@cache
def code_package() -> CodePackage:
    """The archive; equal bytes for equal files. The files are read once per process."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, name in _files():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    return CodePackage(f"_ray_pkg_{hashlib.sha256(content).hexdigest()[:32]}.zip", content)


def _files() -> list[tuple[Path, str]]:
    """(file, name in the archive) for Troupe's packages and those that TROUPE_IMPORT_PACKAGES allows."""
    files = [
        (ROOT, path) for name in PACKAGES for path in (ROOT / name).rglob("*") if path.suffix in SUFFIXES
    ]
    for name in own_packages():
        top, paths = _location(name)
        files += [(top, path) for path in paths if path.is_file() and "__pycache__" not in path.parts]
    return sorted((path, path.relative_to(top).as_posix()) for top, path in files)


def own_packages() -> list[str]:
    """Users' own top-level packages that runs may name by import path."""
    words = os.environ.get("TROUPE_IMPORT_PACKAGES", "").split(",")
    return sorted({word.strip().partition(".")[0] for word in words if word.strip()})


def _location(name: str) -> tuple[Path, list[Path]]:
    """The folder that a package is imported from, and its files. Raises LauncherFailure if it is not installed."""
    spec = find_spec(name)
    if spec is None or spec.origin is None:
        raise LauncherFailure(
            f"TROUPE_IMPORT_PACKAGES names {name!r}, which is not installed here; install it, or put its folder on PYTHONPATH"
        )
    file = Path(spec.origin)
    if spec.submodule_search_locations is None:
        return file.parent, [file]
    return file.parent.parent, list(file.parent.rglob("*"))

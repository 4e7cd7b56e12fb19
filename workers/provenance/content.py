"""Hashes of the code and the data that a config names."""

import hashlib
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from training_core.config.base import Section
from training_core.config.permitted import named

WHOLE = 256 << 20
"""Bytes up to which a data file is hashed completely."""
PIECE, PIECES = 1 << 20, 64
"""Of a larger file, the size and this many pieces of 1 MiB at equal distances are hashed; the first and the last are included."""
MOST_FILES, MOST_BYTES = 2000, 64 << 20
"""Maximum number of files of a package that are hashed, and of bytes."""
CODE = (".py", ".pyi", ".toml", ".json", ".yaml", ".yml", ".txt", ".cfg")
OURS = ("training_core", "workers")


def code_of(config: Section) -> list[dict[str, Any]]:
    """Return, for every import path in the config: {"field", "path", "version", "sha256", "files", "note"}.

    `version` is the distribution's, empty if the package is not installed as one. `sha256` covers the package's source files
    (names and contents), or the single module. Nothing below the top-level package is imported.
    """
    return [
        {"field": field, "path": path} | _package(path.partition(":")[0].partition(".")[0])
        for field, path in named(config, "import_fields")
    ]


def code_folders(config: Section) -> list[tuple[str, Path]]:
    """Return (top-level package, its folder) of every import path, except Troupe's own."""
    tops = {path.partition(":")[0].partition(".")[0] for _, path in named(config, "import_fields")}
    located = {top: _location(top) for top in sorted(tops - set(OURS))}
    return [(top, path.parent) for top, path in located.items() if path is not None]


def data_of(config: Section, home: Path) -> list[dict[str, Any]]:
    """Return, for every data file in the config: {"field", "path", "bytes", "sha256", "sampled", "note"}."""
    return [
        {"field": field, "path": path} | _data(path, home) for field, path in named(config, "file_fields")
    ]


def file_hash(path: Path) -> tuple[str, bool]:
    """Return (SHA-256 in hex, whether only pieces of the file were read)."""
    size = path.stat().st_size
    digest = hashlib.sha256()
    with path.open("rb") as file:
        if size <= WHOLE:
            return hashlib.file_digest(file, "sha256").hexdigest(), False
        digest.update(f"{size}\n".encode())
        for number in range(PIECES):
            file.seek((size - PIECE) * number // (PIECES - 1))
            digest.update(file.read(PIECE))
    return digest.hexdigest(), True


def _package(top: str) -> dict[str, Any]:
    version = _version(top)
    path = _location(top)
    if path is None:
        return {"version": version, "sha256": "", "files": 0, "note": "not found on the driver's machine"}
    digest, files, total, note = hashlib.sha256(), 0, 0, ""
    root = path.parent
    for file in _sources(path):
        total += file.stat().st_size
        if files == MOST_FILES or total > MOST_BYTES:
            note = f"the hash covers the first {files} files only"
            break
        content = hashlib.sha256(file.read_bytes()).hexdigest()
        digest.update(f"{file.relative_to(root).as_posix()} {content}\n".encode())
        files += 1
    return {"version": version, "sha256": digest.hexdigest(), "files": files, "note": note}


def _location(top: str) -> Path | None:
    """The package's __init__.py or folder, or the module's file; None if there is none."""
    try:
        spec = find_spec(top)
    except (ImportError, ValueError):
        return None
    if spec is None:
        return None
    if spec.submodule_search_locations:
        return Path(next(iter(spec.submodule_search_locations))) / "__init__.py"
    return Path(spec.origin) if spec.origin and Path(spec.origin).is_file() else None


def _sources(path: Path) -> Iterator[Path]:
    if path.name != "__init__.py":
        yield path
        return
    for file in sorted(path.parent.rglob("*")):
        hidden = any(
            part.startswith(".") or part == "__pycache__" for part in file.relative_to(path.parent).parts
        )
        if file.suffix in CODE and not hidden and file.is_file():
            yield file


def _version(top: str) -> str:
    try:
        return metadata.version(top)
    except metadata.PackageNotFoundError:
        pass
    distributions = metadata.packages_distributions().get(top, [])
    return metadata.version(distributions[0]) if distributions else ""


def _data(path: str, home: Path) -> dict[str, Any]:
    candidates = [home / "data" / path, Path(path).expanduser()]
    file = next((candidate for candidate in candidates if candidate.is_file()), None)
    if file is None:
        return {"bytes": 0, "sha256": "", "sampled": False, "note": "not found on the driver's machine"}
    try:
        digest, sampled = file_hash(file)
    except OSError as error:
        return {"bytes": 0, "sha256": "", "sampled": False, "note": f"cannot be read: {error.strerror}"}
    return {"bytes": file.stat().st_size, "sha256": digest, "sampled": sampled, "note": ""}

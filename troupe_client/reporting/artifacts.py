"""Artifacts: store files, folders and tables of a run as a version, and fetch versions into a local cache.

Contents travel by their SHA-256: a content that the server has is not sent again, and one in the cache is not fetched again.
"""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import quote

from training_core.errors import TroupeError
from troupe_client.server_api import Server, ServerFailure

TABLE = "table.jsonl"
"""File of a table: one JSON object per row."""
Rows = Sequence[Mapping[str, Any]]


def version_body(
    name: str, files: Mapping[str, Path], kind: str, aliases: Iterable[str], metadata: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the request that creates a version of these files: path in the artifact -> file."""
    rows = [
        {"path": path, "size": file.stat().st_size, "sha256": file_sha256(file)}
        for path, file in files.items()
    ]
    return {"name": name, "type": kind, "files": rows, "aliases": list(aliases), "metadata": dict(metadata)}


def version_put(
    server: Server, path: str, project: str, body: dict[str, Any], files: Mapping[str, Path]
) -> dict[str, Any]:
    """Create a version by POST to `path`, and upload the contents that the server lacks. Raises ServerAway, ServerFailure."""
    try:
        return dict(server.call(path, body))
    except ServerFailure as refusal:
        missing = refusal.body.get("missing")
        if not missing:
            raise
    by_hash = {row["sha256"]: files[row["path"]] for row in body["files"]}
    for sha256 in missing:
        server.upload(f"/api/v1/projects/{project}/artifact-contents/{sha256}/", by_hash[sha256])
    return dict(server.call(path, body))


def files_of(source: Path) -> dict[str, Path]:
    """Return path in the artifact -> file, of a file or of all files below a folder. Raises TroupeError if there is none."""
    files = {source.name: source} if source.is_file() else files_below(source)
    if not files:
        raise TroupeError(f"{source} is neither a file nor a folder with files")
    return files


def files_below(folder: Path) -> dict[str, Path]:
    """Return path in the folder -> file, without links; empty if there is none."""
    inside = (file for file in sorted(folder.rglob("*")) if file.is_file() and not file.is_symlink())
    return {file.relative_to(folder).as_posix(): file for file in inside}


def table_write(table: Rows, folder: Path) -> dict[str, Path]:
    """Write rows as JSON Lines, and return path in the artifact -> file."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / TABLE
    file.write_text("".join(json.dumps(dict(row), default=str) + "\n" for row in table))
    return {TABLE: file}


def version_fetch(server: Server, version: Mapping[str, Any], folder: Path) -> Path:
    """Return the folder with the files of a version, below `folder`; downloaded, and checked by SHA-256, if it is not there.

    Raises TroupeError if a received file has another hash, or if the version has no files.
    """
    target = folder / f"{version['project']}-{version['name']}-{version['version']}-{version['digest'][:12]}"
    if target.is_dir():
        return target
    if not version["files"]:
        raise TroupeError(
            f"{version['name']} is a checkpoint; use it as a model (artifact:{version['name']}) or download the checkpoint"
        )
    draft = folder / f".{secrets.token_hex(6)}"
    try:
        for file in version["files"]:
            _fetch_file(server, version, file, draft)
        draft.rename(target)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _fetch_file(server: Server, version: Mapping[str, Any], file: Mapping[str, Any], folder: Path) -> None:
    parts = PurePosixPath(file["path"])
    if parts.is_absolute() or ".." in parts.parts:
        raise TroupeError(f"{file['path']!r} is not a path inside the folder")
    to = folder / parts
    to.parent.mkdir(parents=True, exist_ok=True)
    path = (
        f"/api/v1/artifacts/{version['artifact']}/versions/{version['version']}/files/{quote(file['path'])}"
    )
    with server.stream(path) as response, to.open("wb") as output:
        for chunk in response.iter_bytes(1 << 20):
            output.write(chunk)
    if file_sha256(to) != file["sha256"]:
        raise TroupeError(f"{file['path']} arrived with another hash than the server reports; try again")


def cache_folder() -> Path:
    """The folder of fetched versions: TROUPE_DIR/artifacts, or ~/.cache/troupe/artifacts."""
    base = os.environ.get("TROUPE_DIR", "").strip()
    folder = (
        Path(base).expanduser() / "artifacts" if base else Path.home() / ".cache" / "troupe" / "artifacts"
    )
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def artifact_find(server: Server, project: str, reference: str) -> dict[str, Any]:
    """Return the version NAME, NAME:v3 or NAME:alias of a project. Raises ServerFailure."""
    name, _, version = reference.partition(":")
    for row in _listed(server, project):
        if row["name"] == name:
            return dict(server.call(f"/api/v1/artifacts/{row['id']}/versions/{version or 'latest'}/"))
    raise ServerFailure(f"the project {project} has no artifact {name!r}; `troupe artifact list` lists them")


def _listed(server: Server, project: str) -> Iterator[dict[str, Any]]:
    yield from server.call(f"/api/v1/projects/{project}/artifacts/")["results"]

"""Streamed responses: archives, unpacked while they arrive, and lines, written to a file."""

import io
import shutil
import sys
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path, PurePosixPath
from typing import TextIO

from training_core.errors import TroupeError
from troupe_client.server_api import Server


def write_lines(lines: Iterable[str], output: Path | None) -> int:
    """Write streamed lines to a file, or to standard output, and return their number. A partial file is never left at `output`."""
    if output is None:
        return _copy(lines, sys.stdout)
    partial = output.with_name(output.name + ".part")
    with partial.open("w", encoding="utf-8") as file:
        count = _copy(lines, file)
    partial.replace(output)
    return count


def _copy(lines: Iterable[str], file: TextIO) -> int:
    count = 0
    for line in lines:
        file.write(line + "\n")
        count += 1
    return count


def _extract(archive: tarfile.TarFile, folder: Path) -> None:
    """Extract plain files and folders inside `folder`. Raises TarError for any other member, before it is written."""
    # Python before 3.11.4 has no filters; 3.12 and 3.13 warn where none is set.
    archive.extraction_filter = getattr(tarfile, "data_filter", None)
    for member in archive:
        path = PurePosixPath(member.name)
        if not (member.isfile() or member.isdir()) or path.is_absolute() or ".." in path.parts:
            raise tarfile.TarError(f"{member.name!r} is not a plain file inside the folder")
        archive.extract(member, folder, set_attrs=False)


class _ChunkReader(io.RawIOBase):
    """Chunks as a file without seek."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; empty at the end."""
        if not self._rest:
            self._rest = next(self._chunks, b"")
        piece, self._rest = self._rest[:size], self._rest[size:]
        return piece


def fetch_tar(server: Server, path: str, to: Path | None, **query: str) -> Path:
    """Unpack the tar at `path` into the folder `to` (default: the folder in the archive). A partial folder is never left there.

    Raises ServerFailure, and TroupeError if the folder exists or cannot be written.
    """
    parent = (to.parent if to else Path()).resolve()
    try:
        parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".troupe-", dir=parent))
    except OSError as error:
        raise TroupeError(f"cannot write to {parent}: {error}") from error
    try:
        with server.stream(path, **query) as response:
            reader = _ChunkReader(response.iter_bytes(1024 * 1024))
            with tarfile.open(fileobj=reader, mode="r|") as archive:
                _extract(archive, draft)
        [unpacked] = draft.iterdir()
        target = to or parent / unpacked.name
        if target.exists():
            raise TroupeError(f"{target} already exists; choose another folder with --to")
        unpacked.rename(target)
        return target
    except (tarfile.TarError, OSError, ValueError) as error:
        raise TroupeError(f"the archive could not be unpacked: {error}; try again") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)

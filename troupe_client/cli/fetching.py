"""What the server streams: archives, unpacked as they come in, and lines, written to a file."""

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
    """Write a streamed answer to a file, which is there whole or not at all, or to standard output; the lines written."""
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
    """Plain files and folders that stay inside `folder`; Python before 3.11.4 has no filter that sees to it.

    Raises TarError for anything else, before it is written.
    """
    for member in archive:
        place = PurePosixPath(member.name)
        if not (member.isfile() or member.isdir()) or place.is_absolute() or ".." in place.parts:
            raise tarfile.TarError(f"{member.name!r} is no plain file inside the folder")
        archive.extract(member, folder, set_attrs=False)


class _Pieces(io.RawIOBase):
    """Chunks as a file that can only be read on."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes; empty at the end."""
        if not self._rest:
            self._rest = next(self._chunks, b"")
        taken, self._rest = self._rest[:size], self._rest[size:]
        return taken


def fetch_tar(server: Server, path: str, to: Path | None, **query: str) -> Path:
    """Unpack the tar at `path` into the folder `to` (default: that in the archive); it is there whole or not at all.

    Raises ServerFailure, TroupeError where the folder exists already or cannot be written.
    """
    parent = (to.parent if to else Path()).resolve()
    try:
        parent.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(prefix=".troupe-", dir=parent))
    except OSError as error:
        raise TroupeError(f"cannot write to {parent}: {error}") from error
    try:
        with server.stream(path, **query) as answer:
            pieces = _Pieces(answer.iter_bytes(1024 * 1024))
            with tarfile.open(fileobj=pieces, mode="r|") as archive:
                _extract(archive, draft)
        [made] = draft.iterdir()
        place = to or parent / made.name
        if place.exists():
            raise TroupeError(f"{place} is there already; name another folder with --to")
        made.rename(place)
        return place
    except (tarfile.TarError, OSError, ValueError) as error:
        raise TroupeError(f"the archive could not be unpacked: {error}; try again") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)

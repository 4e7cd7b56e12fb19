"""Checkpoint folders for the web side: download their models, pin them, delete them. Loads no tensors and unpickles nothing.

Drivers, which run users' code, write these folders: links are never followed.
"""

import io
import secrets
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from training_core.checkpoints import DRAFT, MANIFEST, PINNED, POLICY, STATE, damage
from training_core.errors import CheckpointError

LEARNING = ("optimizer.safetensors", POLICY)
"""Files that only training needs; a language model is complete without them."""
MARKS = ("config.json", "actor.safetensors")
"""Files that mark a policy's folder: of a language model, of small networks."""
CHUNK = 1024 * 1024
_BLOCK = tarfile.BLOCKSIZE


@dataclass(frozen=True)
class Member:
    """A file of an archive, from disk or from bytes."""

    name: str
    """Path in the archive."""
    size: int
    """Bytes."""
    source: Path | bytes


class FilesGone(CheckpointError):
    """The run's checkpoints are on this machine, but this one was deleted."""


def checkpoint_place(run_folder: Path, path: str) -> Path:
    """The folder of an existing checkpoint. Raises CheckpointError, FilesGone; messages contain no absolute paths."""
    folder = run_folder / path
    if folder.is_dir():
        if folder.resolve().is_relative_to(run_folder.resolve()):
            return folder
        raise CheckpointError(f"{path} of run {run_folder.name} is a link that leads out of the run's folder")
    if folder.parent.is_dir():
        raise FilesGone(f"{_words(folder)} was deleted a moment ago", remedy="take another checkpoint")
    raise CheckpointError(
        f"the files of {_words(folder)} are not on the web server's machine",
        remedy="mount the folder of runs (TROUPE_HOME/runs) there",
    )


def checkpoint_damage(run_folder: Path, path: str, *, contents: bool) -> str | None:
    """The damage of a checkpoint (see training_core.checkpoints.damage); None if its files are not on this machine.

    Raises FilesGone.
    """
    try:
        return damage(checkpoint_place(run_folder, path), contents=contents)
    except FilesGone:
        raise
    except CheckpointError:
        return None


def _words(folder: Path) -> str:
    return f"{folder.name} of run {folder.parent.parent.name}"


def pin(folder: Path) -> None:
    """Exempt a checkpoint from retention. Raises CheckpointError."""
    try:
        mark = folder.parent / PINNED / folder.name
        mark.parent.mkdir(exist_ok=True)
        mark.touch()
    except OSError as error:
        raise CheckpointError(f"cannot pin {_words(folder)}: {error.strerror}") from error
    if not folder.is_dir():
        mark.unlink(missing_ok=True)
        raise FilesGone(f"{_words(folder)} was deleted a moment ago", remedy="take another checkpoint")


def unpin(folder: Path) -> None:
    """Subject a checkpoint to retention again."""
    (folder.parent / PINNED / folder.name).unlink(missing_ok=True)


def set_aside(folder: Path) -> Path:
    """Rename a checkpoint for deletion and return the new path. Raises CheckpointError.

    If `delete` does not run, the next attempt deletes folders with this name.
    """
    aside = folder.with_name(f"{DRAFT}{secrets.token_hex(4)}")
    try:
        folder.rename(aside)
    except OSError as error:
        raise CheckpointError(f"cannot delete {_words(folder)}: {error.strerror}") from error
    return aside


def delete(aside: Path) -> None:
    """Delete a folder from `set_aside`. Raises OSError."""
    shutil.rmtree(aside)


def policies_in(checkpoint: Path) -> list[str]:
    """Names of the policies that a checkpoint has weights of, sorted."""
    folders = [file.parent for mark in MARKS for file in checkpoint.glob(f"*/{mark}")]
    return sorted(folder.name for folder in folders if not folder.is_symlink())


def model_files(checkpoint: Path, policies: Iterable[str]) -> list[Member]:
    """The Hugging Face folders of the policies: config, weights, tokenizer; names begin with the policy's."""
    return [
        Member(f"{policy}/{item.name}", item.stat().st_size, item)
        for policy in policies
        for item in _plain(checkpoint / policy)
        if item.name not in LEARNING
    ]


def network_files(checkpoint: Path, policies: Iterable[str]) -> list[Member]:
    """All files of small networks' folders, and the files that make them a resumable checkpoint."""
    folders = [checkpoint / policy for policy in policies]
    inside = [(f"{folder.name}/{item.name}", item) for folder in folders for item in _plain(folder)]
    common = [(item.name, item) for item in _plain(checkpoint) if item.name in (STATE, MANIFEST)]
    return [Member(name, item.stat().st_size, item) for name, item in (*inside, *common)]


def _plain(folder: Path) -> list[Path]:
    """The folder's files without links."""
    return [item for item in sorted(folder.iterdir()) if item.is_file() and not item.is_symlink()]


def tar_size(members: Iterable[Member]) -> int:
    """Size in bytes of the archive that `tar_chunks` produces."""
    return sum(_BLOCK + member.size + -member.size % _BLOCK for member in members) + 2 * _BLOCK


def tar_chunks(root: str, members: Iterable[Member]) -> Iterator[bytes]:
    """An uncompressed tar of the members below a folder `root`, in chunks: weights do not compress.

    Raises OSError if a file is missing, and ValueError if one has become shorter.
    """
    for member in members:
        header = tarfile.TarInfo(f"{root}/{member.name}")
        header.size, header.mode = member.size, 0o644
        yield header.tobuf(tarfile.GNU_FORMAT)
        yield from _content(member)
        yield bytes(-member.size % _BLOCK)
    yield bytes(2 * _BLOCK)


def _content(member: Member) -> Iterator[bytes]:
    left = member.size
    with io.BytesIO(member.source) if isinstance(member.source, bytes) else member.source.open("rb") as file:
        while left and (chunk := file.read(min(CHUNK, left))):
            left -= len(chunk)
            yield chunk
    if left:
        raise ValueError(f"{member.name} has become shorter while it was sent")

"""What the web side does with checkpoint folders: hand their models out, keep them, delete them. No tensors, nothing is unpickled.

Folders are written by drivers, which run what their people give them: links are never followed.
"""

import io
import secrets
import shutil
import tarfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from training_core.checkpoints import DRAFT, MANIFEST, PINNED, STATE, damage
from training_core.errors import CheckpointError

LEARNING = ("optimizer.safetensors", "policy.json")
"""Files that only learning needs; a language model is whole without them."""
MARKS = ("config.json", "actor.safetensors")
"""What a policy's folder has: of a language model, of small networks."""
CHUNK = 1024 * 1024
_BLOCK = tarfile.BLOCKSIZE


@dataclass(frozen=True)
class Member:
    """A file of an archive: from disk, or given as bytes."""

    name: str
    """Path in the archive."""
    size: int
    """Bytes."""
    source: Path | bytes


class FilesGone(CheckpointError):
    """The run's checkpoints are on this machine, and this one is not among them any more."""


def checkpoint_place(run_folder: Path, path: str) -> Path:
    """The folder of a checkpoint that is there. Raises CheckpointError, FilesGone, without the machine's own paths."""
    place = run_folder / path
    if place.is_dir():
        if place.resolve().is_relative_to(run_folder.resolve()):
            return place
        raise CheckpointError(f"{path} of run {run_folder.name} is a link that leads out of the run's folder")
    if place.parent.is_dir():
        raise FilesGone(f"{_words(place)} was deleted a moment ago; take another checkpoint")
    raise CheckpointError(
        f"the files of {_words(place)} are not on the web server's machine; "
        "mount the folder of runs (TROUPE_HOME/runs) there"
    )


def checkpoint_damage(run_folder: Path, path: str, *, contents: bool) -> str | None:
    """What is wrong with a checkpoint (see training_core.checkpoints.damage); None where its files are not on this machine.

    Raises FilesGone.
    """
    try:
        return damage(checkpoint_place(run_folder, path), contents=contents)
    except FilesGone:
        raise
    except CheckpointError:
        return None


def _words(place: Path) -> str:
    return f"{place.name} of run {place.parent.parent.name}"


def pin(place: Path) -> None:
    """Keep a checkpoint whatever retention says. Raises CheckpointError."""
    try:
        mark = place.parent / PINNED / place.name
        mark.parent.mkdir(exist_ok=True)
        mark.touch()
    except OSError as error:
        raise CheckpointError(f"cannot pin {_words(place)}: {error.strerror}") from error
    if not place.is_dir():
        mark.unlink(missing_ok=True)
        raise FilesGone(f"{_words(place)} was deleted a moment ago; take another checkpoint")


def unpin(place: Path) -> None:
    """Leave it to retention again."""
    (place.parent / PINNED / place.name).unlink(missing_ok=True)


def set_aside(place: Path) -> Path:
    """Take a checkpoint out of its place at once, to be deleted; where it is then. Raises CheckpointError.

    Under that name the next attempt would delete it, if `delete` does not come to it.
    """
    aside = place.with_name(f"{DRAFT}{secrets.token_hex(4)}")
    try:
        place.rename(aside)
    except OSError as error:
        raise CheckpointError(f"cannot delete {_words(place)}: {error.strerror}") from error
    return aside


def delete(aside: Path) -> None:
    """Delete what was set aside. Raises OSError."""
    shutil.rmtree(aside)


def policies_in(checkpoint: Path) -> list[str]:
    """Policies that a checkpoint has weights of, by name."""
    found = [item.parent for mark in MARKS for item in checkpoint.glob(f"*/{mark}")]
    return sorted(folder.name for folder in found if not folder.is_symlink())


def model_files(checkpoint: Path, policy: str) -> list[Member]:
    """The Hugging Face folder of one policy: config, weights, tokenizer; names begin with the policy's."""
    return [
        Member(f"{policy}/{item.name}", item.stat().st_size, item)
        for item in _plain(checkpoint / policy)
        if item.name not in LEARNING
    ]


def network_files(checkpoint: Path, policies: Iterable[str]) -> list[Member]:
    """Small networks' folders with all that is in them, and what makes them a checkpoint that can be gone on from."""
    folders = [checkpoint / policy for policy in policies]
    inside = [(f"{folder.name}/{item.name}", item) for folder in folders for item in _plain(folder)]
    beside = [(item.name, item) for item in _plain(checkpoint) if item.name in (STATE, MANIFEST)]
    return [Member(name, item.stat().st_size, item) for name, item in (*inside, *beside)]


def _plain(folder: Path) -> list[Path]:
    """Its files, links left out."""
    return [item for item in sorted(folder.iterdir()) if item.is_file() and not item.is_symlink()]


def tar_size(members: Iterable[Member]) -> int:
    """Bytes of the archive that `tar_chunks` makes."""
    return sum(_BLOCK + member.size + -member.size % _BLOCK for member in members) + 2 * _BLOCK


def tar_chunks(root: str, members: Iterable[Member]) -> Iterator[bytes]:
    """An uncompressed tar of the members below a folder `root`, piece by piece: weights do not get smaller by packing.

    Raises OSError where a file is gone, and ValueError where one is not as long as it was.
    """
    for member in members:
        facts = tarfile.TarInfo(f"{root}/{member.name}")
        facts.size, facts.mode = member.size, 0o644
        yield facts.tobuf(tarfile.GNU_FORMAT)
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

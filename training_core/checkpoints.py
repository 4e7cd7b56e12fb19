"""Checkpoints on disk: written whole or not at all, read only when whole. No tensors here.

<folder>/iteration-000020/state.json      what the caller wants to know again (iteration, counters, ...), and the layout
<folder>/iteration-000020/manifest.json   every other file with its size in bytes and its SHA-256; written last
<folder>/iteration-000020/<policy>/       see training_core.llm.learning.saving

A checkpoint is written into a draft beside its place, brought to disk, then renamed: what bears the name is whole.
A disk can still lose or change bytes later, so `damage` compares a checkpoint with its manifest before it is used.
Nothing is unpickled, so a checkpoint of unknown origin cannot run code.
"""

import hashlib
import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from training_core.errors import CheckpointError

LAYOUT = 2
SIZES_ONLY = 1
"""The layout of earlier versions, whose manifests have no hashes."""
STATE = "state.json"
MANIFEST = "manifest.json"
DRAFT = ".draft-"
REPLACED = ".replaced-"
"""What the name of a checkpoint begins with while another one of its iteration takes its place."""
PINNED = ".pinned"
"""Folder beside the checkpoints, with an empty file by the name of each that must stay."""
_NAME = re.compile(r"iteration-(\d{6,12})")
_LISTED = 3
"""Damaged files that a message names."""


@dataclass(frozen=True)
class Listed:
    """One file of a manifest."""

    size: int
    """Bytes."""
    sha256: str
    """Hexadecimal; empty in a manifest of layout 1."""


def name_of(iteration: int) -> str:
    """The name of an iteration's checkpoint."""
    return f"iteration-{iteration:06d}"


def iteration_of(name: str) -> int:
    """The iteration of a checkpoint's name. Raises CheckpointError for anything that is no such name, paths included."""
    match = _NAME.fullmatch(name)
    if match is None or name_of(int(match[1])) != name:
        raise CheckpointError(f"{name!r} is no checkpoint's name; name one like {name_of(20)}")
    return int(match[1])


def find(folder: Path, name: str) -> Path:
    """The checkpoint of this name in a run's checkpoint folder, whole. Raises CheckpointError.

    The name may come from a user: it cannot lead out of the folder, nor can a link that bears it.
    """
    iteration_of(name)
    place = folder / name
    if not place.is_dir() or place.resolve().parent != folder.resolve():
        raise CheckpointError(f"there is no checkpoint {name} in {folder}; there are {_listed(folder)}")
    verify(place)
    return place


def checkpoints(folder: Path) -> dict[int, Path]:
    """Checkpoints in a run's checkpoint folder by iteration, rising; whatever else is there is left alone."""
    if not folder.is_dir():
        return {}
    found = {int(match[1]): item for item in folder.iterdir() if (match := _NAME.fullmatch(item.name))}
    whole = {number: item for number, item in found.items() if (item / MANIFEST).is_file()}
    return dict(sorted(whole.items()))


def latest(folder: Path) -> Path | None:
    """The last whole checkpoint; damaged ones are passed over."""
    return next((place for place in reversed(checkpoints(folder).values()) if not damage(place)), None)


@contextmanager
def writing(folder: Path, iteration: int, state: Mapping[str, Any]) -> Iterator[Path]:
    """A draft to write into; it becomes the iteration's checkpoint when the block ends well, and vanishes otherwise.

    `state` is JSON. A checkpoint of the same name (of an earlier attempt) is replaced. Raises CheckpointError.
    """
    place = folder / name_of(iteration)
    draft = folder / f"{DRAFT}{secrets.token_hex(4)}"
    try:
        draft.mkdir(parents=True)
        yield draft
        (draft / STATE).write_text(json.dumps({**state, "layout": LAYOUT, "iteration": iteration}, indent=1))
        (draft / MANIFEST).write_text(_manifest_of(draft))
        _commit(draft, place)
    except OSError as error:
        raise CheckpointError(f"cannot write the checkpoint {place}: {error}; is the disk full?") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def read_state(checkpoint: Path) -> dict[str, Any]:
    """What was written as `state`. Raises CheckpointError where the checkpoint is foreign or torn; hashes are not compared."""
    verify(checkpoint, contents=False)
    return _read(checkpoint, STATE)


def verify(checkpoint: Path, *, contents: bool = True) -> None:
    """Raises CheckpointError where the checkpoint is damaged or of an unknown layout."""
    if found := damage(checkpoint, contents=contents):
        raise CheckpointError(f"the checkpoint {checkpoint} is damaged: {found}; use another checkpoint")


def damage(checkpoint: Path, *, contents: bool = True) -> str:
    """What is wrong with a checkpoint, without its folder's path; empty where nothing is.

    Sizes are compared first. Where they agree, `contents` compares hashes too, which reads every file once.
    """
    try:
        layout, files = _manifest(checkpoint)
        there = _sizes(checkpoint)
        wrong = {name: _wrong_size(listed.size, there.get(name)) for name, listed in files.items()}
        if not any(wrong.values()) and contents and layout != SIZES_ONLY:
            wrong = {name: _wrong_content(checkpoint / name, listed) for name, listed in files.items()}
    except CheckpointError as error:
        return str(error)
    except OSError as error:
        return f"its files cannot be read ({error.strerror or type(error).__name__})"
    told = [f"{name} {what}" for name, what in wrong.items() if what]
    more = f" and {len(told) - _LISTED} more files" if len(told) > _LISTED else ""
    return ", ".join(told[:_LISTED]) + more


def has_hashes(checkpoint: Path) -> bool:
    """Whether the manifest has hashes; those of earlier versions have sizes alone. Raises CheckpointError."""
    return _manifest(checkpoint)[0] != SIZES_ONLY


def retain(folder: Path, keep: int, best: Collection[int], *, until: int | None = None) -> list[Path]:
    """Delete all but the latest `keep` checkpoints, those of the `best` iterations, and pinned ones; returns those deleted.

    Those beyond iteration `until` are an earlier attempt's: neither counted nor touched, they will be written over.
    """
    there = {
        number: place for number, place in checkpoints(folder).items() if until is None or number <= until
    }
    pinned = folder / PINNED
    gone = [
        place
        for number, place in list(there.items())[:-keep]
        if number not in best and not (pinned / place.name).exists()
    ]
    return [place for place in gone if _removed(place)]


def sweep(folder: Path) -> None:
    """Delete drafts that a process left which died while it wrote. Only when no other writes here.

    A checkpoint that was moved aside, and whose successor never got its name, gets the name back.
    """
    for aside in folder.glob(f"{REPLACED}*"):
        place = folder / aside.name.removeprefix(REPLACED)
        if place.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.rename(place)
    for draft in folder.glob(f"{DRAFT}*"):
        shutil.rmtree(draft, ignore_errors=True)


def bring_to_disk(folder: Path) -> None:
    """Wait until everything below is on disk, so that a later rename cannot outlive it. Raises OSError."""
    for item in sorted(folder.rglob("*")):
        _sync(item)
    _sync(folder)


def size_of(checkpoint: Path) -> int:
    """Bytes of all files below."""
    return sum(_sizes(checkpoint).values())


def _removed(place: Path) -> bool:
    """Delete a checkpoint, its name first, so that no part of it remains under that name.

    False where it was pinned at the same moment: then it stays.
    """
    aside = _aside(place)
    place.rename(aside)
    if (place.parent / PINNED / place.name).exists():
        aside.rename(place)
        return False
    shutil.rmtree(aside)
    return True


def _aside(place: Path) -> Path:
    """A new name, under which `sweep` deletes it."""
    return place.with_name(f"{DRAFT}{secrets.token_hex(4)}")


def _manifest_of(draft: Path) -> str:
    """The text of a manifest of all files below."""
    files = {
        name: asdict(Listed(size, _sha256(draft / name))) for name, size in sorted(_sizes(draft).items())
    }
    return json.dumps({"layout": LAYOUT, "files": files}, indent=1)


def _manifest(checkpoint: Path) -> tuple[int, dict[str, Listed]]:
    """Layout and files. Raises CheckpointError with what is wrong, without the folder's path."""
    content = _read(checkpoint, MANIFEST)
    layout, files = content.get("layout"), content.get("files")
    if layout not in (SIZES_ONLY, LAYOUT) or not isinstance(files, dict):
        raise CheckpointError(
            f"{MANIFEST} has layout {layout!r}, this version of Troupe reads {SIZES_ONLY} and {LAYOUT}"
        )
    if layout == SIZES_ONLY:
        return layout, {name: Listed(size, "") for name, size in files.items()}
    try:
        return layout, {name: Listed(**listed) for name, listed in files.items()}
    except TypeError as error:
        raise CheckpointError(f"{MANIFEST} is not what Troupe writes") from error


def _wrong_size(listed: int, there: int | None) -> str:
    """What is wrong with the size of a file; empty where nothing is."""
    if there is None:
        return "is missing"
    return f"has {there} bytes in place of {listed}" if there != listed else ""


def _wrong_content(file: Path, listed: Listed) -> str:
    changed = _sha256(file) != listed.sha256
    return "has other content than was written (its SHA-256 differs)" if changed else ""


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read(checkpoint: Path, name: str) -> dict[str, Any]:
    """A JSON object. Raises CheckpointError with what is wrong, without the folder's path."""
    try:
        content = json.loads((checkpoint / name).read_text())
    except FileNotFoundError as error:
        raise CheckpointError(f"{name} is missing") from error
    except (OSError, ValueError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is no JSON"
        raise CheckpointError(f"{name} cannot be read ({said})") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{name} is not what Troupe writes")
    return content


def _sizes(folder: Path) -> dict[str, int]:
    files = (item for item in folder.rglob("*") if item.is_file() and item.name != MANIFEST)
    return {item.relative_to(folder).as_posix(): item.stat().st_size for item in files}


def _commit(draft: Path, place: Path) -> None:
    """Everything is on disk before the name is. One of the same name keeps its files until the new one has the name."""
    bring_to_disk(draft)
    aside = place.with_name(f"{REPLACED}{place.name}")
    if place.exists():
        shutil.rmtree(aside, ignore_errors=True)
        place.rename(aside)
    draft.rename(place)
    _sync(place.parent)
    with suppress(OSError):  # the run folder may belong to somebody else
        _sync(place.parent.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _listed(folder: Path) -> str:
    return ", ".join(place.name for place in checkpoints(folder).values()) or "none"

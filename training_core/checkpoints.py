"""Checkpoints on disk: written whole or not at all, read only when whole. No tensors here.

<folder>/iteration-000020/state.json      what the caller wants to know again (iteration, counters, ...), and the layout
<folder>/iteration-000020/manifest.json   every other file with its size in bytes; written last
<folder>/iteration-000020/<policy>/       see training_core.llm.learning.saving

A checkpoint is written into a draft beside its place, brought to disk, then renamed: what bears the name is whole.
Nothing is unpickled, so a checkpoint of unknown origin cannot run code.
"""

import json
import os
import re
import secrets
import shutil
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from training_core.errors import CheckpointError

LAYOUT = 1
STATE = "state.json"
MANIFEST = "manifest.json"
DRAFT = ".draft-"
PINNED = ".pinned"
"""Folder beside the checkpoints, with an empty file by the name of each that must stay."""
_NAME = re.compile(r"iteration-(\d{6,12})")


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
    """The last whole checkpoint; one that is torn is passed over."""
    for place in reversed(checkpoints(folder).values()):
        try:
            verify(place)
        except CheckpointError:
            continue
        return place
    return None


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
        (draft / MANIFEST).write_text(json.dumps({"layout": LAYOUT, "files": _sizes(draft)}, indent=1))
        _commit(draft, place)
    except OSError as error:
        raise CheckpointError(f"cannot write the checkpoint {place}: {error}; is the disk full?") from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def read_state(checkpoint: Path) -> dict[str, Any]:
    """What was written as `state`. Raises CheckpointError where the checkpoint is foreign or torn."""
    verify(checkpoint)
    return _read(checkpoint, STATE)


def verify(checkpoint: Path) -> None:
    """Raises CheckpointError where this is no checkpoint of this layout, or where a file is missing or of another size."""
    manifest = _read(checkpoint, MANIFEST)
    files = manifest.get("files")
    if manifest.get("layout") != LAYOUT or not isinstance(files, dict):
        raise CheckpointError(
            f"the checkpoint {checkpoint} has layout {manifest.get('layout')!r}, this version reads {LAYOUT}"
        )
    there = _sizes(checkpoint)
    torn = [name for name, size in files.items() if there.get(name) != size]
    if torn:
        raise CheckpointError(
            f"the checkpoint {checkpoint} is torn: {', '.join(torn[:3])} missing or of another size; "
            "resume from another one"
        )


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
    for place in gone:
        shutil.rmtree(place)
    return gone


def sweep(folder: Path) -> None:
    """Delete drafts that a process left which died while it wrote. Only when no other writes here."""
    for draft in folder.glob(f"{DRAFT}*"):
        shutil.rmtree(draft, ignore_errors=True)


def size_of(checkpoint: Path) -> int:
    """Bytes of all files below."""
    return sum(_sizes(checkpoint).values())


def _read(checkpoint: Path, name: str) -> dict[str, Any]:
    try:
        content = json.loads((checkpoint / name).read_text())
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{checkpoint} is no whole checkpoint: {error}; resume from another one"
        ) from error
    if not isinstance(content, dict):
        raise CheckpointError(
            f"{checkpoint / name} is not what Troupe writes; resume from another checkpoint"
        )
    return content


def _sizes(folder: Path) -> dict[str, int]:
    files = (item for item in folder.rglob("*") if item.is_file() and item.name != MANIFEST)
    return {item.relative_to(folder).as_posix(): item.stat().st_size for item in files}


def _commit(draft: Path, place: Path) -> None:
    """Everything is on disk before the name is."""
    for item in sorted(draft.rglob("*")):
        _sync(item)
    _sync(draft)
    if place.exists():
        aside = place.with_name(f"{DRAFT}{secrets.token_hex(4)}")
        place.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)
    draft.rename(place)
    _sync(place.parent)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _listed(folder: Path) -> str:
    return ", ".join(place.name for place in checkpoints(folder).values()) or "none"

"""Checkpoints on disk: written atomically and read only if complete. No tensors here.

<folder>/iteration-000020/state.json      the caller's state (iteration, counters, ...) and the layout
<folder>/iteration-000020/manifest.json   every other file with its size in bytes and its SHA-256; written last
<folder>/iteration-000020/<policy>/       see training_core.llm.learning.policy_checkpoint

A checkpoint is written into a draft folder in the same parent, synced to disk, then renamed: a folder with the name
is complete. A disk can still lose or change bytes later, so `damage` compares a checkpoint with its manifest before
it is used. Nothing is unpickled, so a checkpoint of unknown origin cannot run code.
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

from safetensors import SafetensorError

from training_core.errors import CheckpointError, TroupeError

LAYOUT = 2
SIZES_ONLY = 1
"""The layout of earlier versions, whose manifests contain no hashes."""
STATE = "state.json"
MANIFEST = "manifest.json"
POLICY = "policy.json"
"""File in the folder of each trained policy; written last, after the weights."""
DRAFT = ".draft-"
REPLACED = ".replaced-"
"""Prefix of a checkpoint's name while another one of the same iteration replaces it."""
PINNED = ".pinned"
"""Folder next to the checkpoints, with an empty file named after each pinned checkpoint."""
_NAME = re.compile(r"iteration-(\d{6,12})")
_LISTED = 3
"""Maximum number of damaged files in a message."""


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
    """The iteration of a checkpoint's name. Raises CheckpointError for anything else, including paths."""
    match = _NAME.fullmatch(name)
    if match is None or name_of(int(match[1])) != name:
        raise CheckpointError(
            f"{name!r} is not the name of a checkpoint", remedy=f"use a name like {name_of(20)}"
        )
    return int(match[1])


def find(folder: Path, name: str) -> Path:
    """The complete checkpoint of this name in a run's checkpoint folder. Raises CheckpointError.

    The name may come from a user: neither it nor a link of that name can lead out of the folder.
    """
    iteration_of(name)
    checkpoint = folder / name
    if not checkpoint.is_dir() or checkpoint.resolve().parent != folder.resolve():
        raise CheckpointError(f"there is no checkpoint {name} in {folder}; there are {_listed(folder)}")
    verify(checkpoint)
    return checkpoint


def checkpoints(folder: Path) -> dict[int, Path]:
    """Checkpoints in a run's checkpoint folder by ascending iteration; other files are ignored."""
    if not folder.is_dir():
        return {}
    folders = {int(match[1]): item for item in folder.iterdir() if (match := _NAME.fullmatch(item.name))}
    whole = {number: item for number, item in folders.items() if (item / MANIFEST).is_file()}
    return dict(sorted(whole.items()))


def latest(folder: Path) -> Path | None:
    """The last complete checkpoint; damaged ones are skipped."""
    return next(
        (checkpoint for checkpoint in reversed(checkpoints(folder).values()) if not damage(checkpoint)), None
    )


@contextmanager
def writing(
    folder: Path, iteration: int, state: Mapping[str, Any], policies: Collection[str] = ()
) -> Iterator[Path]:
    """A draft to write into; it becomes the iteration's checkpoint if the block succeeds, and is deleted otherwise.

    `state` is JSON. A checkpoint of the same name (of an earlier attempt) is replaced. Raises CheckpointError, also if the
    draft lacks one of the trained `policies`: another machine may have written it into a folder of its own.
    """
    checkpoint = folder / name_of(iteration)
    draft = folder / f"{DRAFT}{secrets.token_hex(4)}"
    try:
        draft.mkdir(parents=True)
        yield draft
        _check_policies(draft, policies)
        (draft / STATE).write_text(json.dumps({**state, "layout": LAYOUT, "iteration": iteration}, indent=1))
        (draft / MANIFEST).write_text(_manifest_of(draft))
        _commit(draft, checkpoint)
    except OSError as error:
        raise CheckpointError(
            f"cannot write the checkpoint {checkpoint}: {error}; is the disk full?"
        ) from error
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def read_state(checkpoint: Path) -> dict[str, Any]:
    """The stored `state`. Raises CheckpointError if the checkpoint is of unknown layout or damaged; hashes are not compared."""
    verify(checkpoint, contents=False)
    return _read(checkpoint, STATE)


def verify(checkpoint: Path, *, contents: bool = True) -> None:
    """Raises CheckpointError if the checkpoint is damaged or of unknown layout."""
    if problem := damage(checkpoint, contents=contents):
        raise CheckpointError(
            f"the checkpoint {checkpoint} is damaged: {problem}", remedy="use another checkpoint"
        )


def damage(checkpoint: Path, *, contents: bool = True) -> str:
    """A description of the damage of a checkpoint, without its folder's path; empty if there is none.

    Sizes are compared first. If they agree, `contents` also compares hashes, which reads every file once.
    """
    try:
        layout, files = _manifest(checkpoint)
        existing = _sizes(checkpoint)
        wrong = {name: _wrong_size(listed.size, existing.get(name)) for name, listed in files.items()}
        if not any(wrong.values()) and contents and layout != SIZES_ONLY:
            wrong = {name: _wrong_content(checkpoint / name, listed) for name, listed in files.items()}
    except CheckpointError as error:
        return str(error)
    except OSError as error:
        return f"its files cannot be read ({error.strerror or type(error).__name__})"
    damaged = [f"{name} {what}" for name, what in wrong.items() if what]
    more = f" and {len(damaged) - _LISTED} more files" if len(damaged) > _LISTED else ""
    return ", ".join(damaged[:_LISTED]) + more


def has_hashes(checkpoint: Path) -> bool:
    """Whether the manifest has hashes; manifests of earlier versions have only sizes. Raises CheckpointError."""
    return _manifest(checkpoint)[0] != SIZES_ONLY


def retain(folder: Path, keep: int, best: Collection[int], *, until: int | None = None) -> list[Path]:
    """Delete all checkpoints except the latest `keep`, those of the `best` iterations, and pinned ones; return those
    deleted.

    Checkpoints beyond iteration `until` belong to an earlier attempt: they are not counted and not deleted, but later
    overwritten.
    """
    existing = {
        number: checkpoint
        for number, checkpoint in checkpoints(folder).items()
        if until is None or number <= until
    }
    pinned = folder / PINNED
    gone = [
        checkpoint
        for number, checkpoint in list(existing.items())[:-keep]
        if number not in best and not (pinned / checkpoint.name).exists()
    ]
    return [checkpoint for checkpoint in gone if _delete(checkpoint)]


def sweep(folder: Path) -> None:
    """Delete drafts of processes that died while writing. Call only when no other process writes here.

    A replaced checkpoint whose successor was not renamed into place gets its name back.
    """
    for aside in folder.glob(f"{REPLACED}*"):
        checkpoint = folder / aside.name.removeprefix(REPLACED)
        if checkpoint.exists():
            shutil.rmtree(aside, ignore_errors=True)
        else:
            aside.rename(checkpoint)
    for draft in folder.glob(f"{DRAFT}*"):
        shutil.rmtree(draft, ignore_errors=True)


def bring_to_disk(folder: Path) -> None:
    """Sync everything below to disk, so that a later rename cannot become durable before it. Raises OSError."""
    for item in sorted(folder.rglob("*")):
        _sync(item)
    _sync(folder)


def size_of(checkpoint: Path) -> int:
    """Total size of all files below, in bytes."""
    return sum(_sizes(checkpoint).values())


def _delete(checkpoint: Path) -> bool:
    """Delete a checkpoint. It is renamed first, so that no partial checkpoint remains under its name.

    Returns False if it was pinned concurrently: then it is kept.
    """
    aside = _aside(checkpoint)
    checkpoint.rename(aside)
    if (checkpoint.parent / PINNED / checkpoint.name).exists():
        aside.rename(checkpoint)
        return False
    shutil.rmtree(aside)
    return True


def _aside(checkpoint: Path) -> Path:
    """A new name that `sweep` deletes."""
    return checkpoint.with_name(f"{DRAFT}{secrets.token_hex(4)}")


def _check_policies(draft: Path, policies: Collection[str]) -> None:
    missing = [f"{policy}/{POLICY}" for policy in policies if not (draft / policy / POLICY).is_file()]
    if missing:
        raise CheckpointError(
            f"the checkpoint was not written into {draft.parent}: {', '.join(missing)} is missing there",
            remedy="mount this folder at the same path on every machine of the run",
        )


def _manifest_of(draft: Path) -> str:
    """The text of a manifest of all files below."""
    files = {
        name: asdict(Listed(size, _sha256(draft / name))) for name, size in sorted(_sizes(draft).items())
    }
    return json.dumps({"layout": LAYOUT, "files": files}, indent=1)


def _manifest(checkpoint: Path) -> tuple[int, dict[str, Listed]]:
    """Layout and files. Raises CheckpointError with the reason, without the folder's path."""
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
        raise CheckpointError(f"{MANIFEST} does not have Troupe's format") from error


def _wrong_size(listed: int, existing: int | None) -> str:
    """The error in the size of a file; empty if there is none."""
    if existing is None:
        return "is missing"
    return f"has {existing} bytes instead of {listed}" if existing != listed else ""


def _wrong_content(file: Path, listed: Listed) -> str:
    changed = _sha256(file) != listed.sha256
    return "has changed since it was written (its SHA-256 differs)" if changed else ""


def _sha256(file: Path) -> str:
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _read(checkpoint: Path, name: str) -> dict[str, Any]:
    """A JSON object. Raises CheckpointError with the reason, without the folder's path."""
    try:
        content = json.loads((checkpoint / name).read_text())
    except FileNotFoundError as error:
        raise CheckpointError(f"{name} is missing") from error
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not JSON"
        raise CheckpointError(f"{name} cannot be read ({reason})") from error
    if not isinstance(content, dict):
        raise CheckpointError(f"{name} does not have Troupe's format")
    return content


def _sizes(folder: Path) -> dict[str, int]:
    files = (item for item in folder.rglob("*") if item.is_file() and item.name != MANIFEST)
    return {item.relative_to(folder).as_posix(): item.stat().st_size for item in files}


def _commit(draft: Path, checkpoint: Path) -> None:
    """Sync everything to disk, then rename. An existing checkpoint of the same name keeps its files until the new one has the name."""
    bring_to_disk(draft)
    aside = checkpoint.with_name(f"{REPLACED}{checkpoint.name}")
    if checkpoint.exists():
        shutil.rmtree(aside, ignore_errors=True)
        checkpoint.rename(aside)
    draft.rename(checkpoint)
    _sync(checkpoint.parent)
    with suppress(OSError):  # the run folder may belong to another user
        _sync(checkpoint.parent.parent)
    shutil.rmtree(aside, ignore_errors=True)


def _sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _listed(folder: Path) -> str:
    return ", ".join(checkpoint.name for checkpoint in checkpoints(folder).values()) or "none"


@contextmanager
def read_errors_explained(folder: Path, fits: str) -> Iterator[None]:
    """Convert errors in the block to CheckpointError with a remedy; `fits` names what the files have to fit."""
    try:
        yield
    except FileNotFoundError as error:
        raise CheckpointError(
            f"the checkpoint {folder} is not complete ({error.filename} is missing)",
            remedy="resume from another checkpoint",
        ) from error
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"the checkpoint {folder} does not fit {fits}, or is damaged: {error}",
            remedy="resume with the config that it was written with, or from another checkpoint",
        ) from error


@contextmanager
def write_errors_explained(what: str, raised: type[TroupeError] = CheckpointError) -> Iterator[None]:
    """Convert disk errors in the block to `raised`; `what` names what is written.

    safetensors raises its own class for a full disk, and tokenizers a plain Exception whose text ends in "(os error
    28)".
    """
    try:
        yield
    except TroupeError:
        raise
    except Exception as error:
        if not isinstance(error, OSError | SafetensorError) and "(os error " not in str(error):
            raise
        raise raised(f"cannot write {what}: {error}; is the disk full?") from error

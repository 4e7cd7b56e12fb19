"""What a disk may hold after the power was cut, or the process killed, while a checkpoint was written."""

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

from training_core.checkpoints import DRAFT, MANIFEST

Contents = dict[str, bytes]
"""Files below a folder, by their path."""


def contents(folder: Path) -> Contents:
    """Every file below."""
    return {
        item.relative_to(folder).as_posix(): item.read_bytes()
        for item in sorted(folder.rglob("*"))
        if item.is_file()
    }


def lay_down(folder: Path, files: Contents) -> None:
    """Make a folder of these files in place of what is there."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def in_writing_order(files: Contents) -> list[str]:
    """The manifest is the last."""
    return sorted(files, key=lambda name: (name == MANIFEST, name))


def lengths(content: bytes, every: bool) -> list[int]:
    """Where a file may be cut, short of its end: at every byte, or at a few places."""
    size = len(content)
    return list(range(size)) if every else sorted({0, 1, size // 3, size // 2, size - 1} - {size})


def half_written(files: Contents, every: bool) -> Iterator[Contents]:
    """Files before the cut are whole, one is a prefix, later ones are not there."""
    order = in_writing_order(files)
    for place, name in enumerate(order):
        before = {known: files[known] for known in order[:place]}
        for length in lengths(files[name], every):
            yield before | {name: files[name][:length]}


def reordered(files: Contents, every: bool) -> Iterator[Contents]:
    """Any one file is absent, a prefix, or a prefix and then zeros, while all others are whole: no order was kept."""
    for name, content in files.items():
        others = {known: text for known, text in files.items() if known != name}
        yield others
        for length in lengths(content, every):
            yield others | {name: content[:length]}
            zeros = content[:length] + bytes(len(content) - length)
            if zeros != content:
                yield others | {name: zeros}


def flipped(files: Contents, every: bool) -> Iterator[Contents]:
    """One bit of one file is another one."""
    for name, content in files.items():
        for place in lengths(content, every):
            for bit in range(8):
                changed = bytearray(content)
                changed[place] ^= 1 << bit
                yield files | {name: bytes(changed)}


def killed_at(step: int, work: Callable[[], None]) -> tuple[bool, set[Path]]:
    """Do `work` in a child process that ends at its file operation number `step`; (whether it got there, files synced).

    Operations are those that change or read names: open, mkdir, rename, remove. fsync is followed by path.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - ends without a word
        _die_at(step, work, writing)
    os.close(writing)
    with os.fdopen(reading) as told:
        synced = {Path(line) for line in told.read().splitlines()}
    return os.waitpid(child, 0)[1] != 0, synced


def _die_at(step: int, work: Callable[[], None], report: int) -> None:
    seen, sync = 0, os.fsync

    def hook(event: str, _: object) -> None:
        nonlocal seen
        if event in ("open", "os.mkdir", "os.rename", "os.remove", "os.rmdir", "shutil.rmtree"):
            seen += 1
            if seen == step:
                os._exit(9)

    def note(handle: int) -> None:
        sync(handle)
        os.write(report, (os.readlink(f"/proc/self/fd/{handle}") + "\n").encode())

    os.fsync = note
    sys.addaudithook(hook)
    try:
        work()
    finally:
        os._exit(0)


def lose_unsynced(folder: Path, synced: set[Path]) -> None:
    """Empty the files of drafts that were not brought to disk."""
    for draft in folder.glob(f"{DRAFT}*"):
        for item in draft.rglob("*"):
            if item.is_file() and item not in synced:
                item.write_bytes(b"")

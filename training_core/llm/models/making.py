"""Folders of models that are made here: by one process at a time, while others wait and are told how far it is.

Beside the folder <name> lie <name>.lock, held by who makes it, and meanwhile <name>.progress: the share done and what is being done.
"""

import fcntl
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from training_core.checkpoints import bring_to_disk
from training_core.llm.models.progress import Progress

FACTS = "troupe.json"
LOOK_EVERY = 0.5
"""Seconds between looks of those who wait."""
Make = Callable[[Path, Progress], dict[str, Any]]
"""Writes a model into a draft folder, telling how far it is; answers with the facts about it."""


def made_once(folder: Path, make: Make, progress: Progress) -> Path:
    """A model's folder, made where it is missing. Safe against several processes at once. Raises OSError.

    `progress` is told how far it is, whoever makes it.
    """
    if (folder / FACTS).is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder, progress):
        if not (folder / FACTS).is_file():
            _place(folder, make, progress)
    return folder


def being_made(folder: Path) -> tuple[float, str] | None:
    """How far the making of a model's folder is: (share done, what is being done). None where nobody makes it."""
    try:
        told = json.loads(_progress_file(folder).read_text())
        return float(told["done"]), str(told["text"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _place(folder: Path, make: Make, progress: Progress) -> None:
    """Make the folder beside its place, then rename it into place. The lock is held: other drafts are leftovers."""
    for leftover in folder.parent.glob(f".{folder.name}-*"):
        shutil.rmtree(leftover, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))

    def tell(done: float, text: str) -> None:
        _note(folder, done, text)
        progress(done, text)

    try:
        (draft / FACTS).write_text(json.dumps(make(draft, tell), indent=1))
        draft.chmod(0o755)
        bring_to_disk(draft)
        shutil.rmtree(folder, ignore_errors=True)  # a folder without facts is no model
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        _progress_file(folder).unlink(missing_ok=True)


def _note(folder: Path, done: float, text: str) -> None:
    """For those who wait; in one step, so that nobody reads half of it."""
    fresh = folder.with_name(f"{folder.name}.progress.new")
    fresh.write_text(json.dumps({"done": done, "text": text}))
    fresh.replace(_progress_file(folder))


def _progress_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.progress")


@contextmanager
def _locked(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold the folder's lock; while another process has it, tell how far that one is."""
    told = None
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        while not _taken(lock.fileno()):
            now = being_made(folder)
            if now and now != told:
                told = now
                progress(*now)
            time.sleep(LOOK_EVERY)
        yield


def _taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

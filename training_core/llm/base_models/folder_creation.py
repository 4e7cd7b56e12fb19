"""Folders of models that are created on demand: by one process at a time, while others wait and see the progress.

Next to the folder <name> are <name>.lock, held by the creating process, and <name>.progress: the share done and the
current step.
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

Progress = Callable[[float, str], None]
"""Called with the share done (0..1) and the current step."""


def silent(done: float, text: str) -> None:
    """Ignore progress."""


FACTS = "troupe.json"
POLL_SECONDS = 0.5
"""Seconds between checks of waiting processes."""
Make = Callable[[Path, Progress], dict[str, Any]]
"""Writes a model into a draft folder and reports progress; returns the facts about it."""


def create_once(folder: Path, make: Make, progress: Progress) -> Path:
    """A model's folder, created if it is missing. Safe for concurrent processes. Raises OSError.

    `progress` is called with the progress, whichever process creates it.
    """
    if (folder / FACTS).is_file():
        return folder
    folder.parent.mkdir(parents=True, exist_ok=True)
    with _locked(folder, progress):
        if not (folder / FACTS).is_file():
            _create(folder, make, progress)
    return folder


def creation_progress(folder: Path) -> tuple[float, str] | None:
    """Progress of creating a model's folder: (share done, current step). None if no process is creating it."""
    try:
        progress = json.loads(_progress_file(folder).read_text())
        return float(progress["done"]), str(progress["text"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _create(folder: Path, make: Make, progress: Progress) -> None:
    """Create the folder under a draft name, then rename it. Other drafts are leftovers, because the lock is held."""
    for old_draft in folder.parent.glob(f".{folder.name}-*"):
        shutil.rmtree(old_draft, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))

    def report(done: float, text: str) -> None:
        _write_progress(folder, done, text)
        progress(done, text)

    try:
        (draft / FACTS).write_text(json.dumps(make(draft, report), indent=1))
        draft.chmod(0o755)
        bring_to_disk(draft)
        shutil.rmtree(folder, ignore_errors=True)  # a folder without facts is incomplete
        draft.rename(folder)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
        _progress_file(folder).unlink(missing_ok=True)


def _write_progress(folder: Path, done: float, text: str) -> None:
    """Write the progress for waiting processes atomically."""
    draft_file = folder.with_name(f"{folder.name}.progress.new")
    draft_file.write_text(json.dumps({"done": done, "text": text}))
    draft_file.replace(_progress_file(folder))


def _progress_file(folder: Path) -> Path:
    return folder.with_name(f"{folder.name}.progress")


@contextmanager
def _locked(folder: Path, progress: Progress) -> Iterator[None]:
    """Hold the folder's lock; while another process holds it, report its progress."""
    reported = None
    with folder.with_name(f"{folder.name}.lock").open("w") as lock:
        while not _try_lock(lock.fileno()):
            now = creation_progress(folder)
            if now and now != reported:
                reported = now
                progress(*now)
            time.sleep(POLL_SECONDS)
        yield


def _try_lock(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True

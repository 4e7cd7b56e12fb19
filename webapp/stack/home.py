"""TROUPE_HOME: its folders, its secrets and its lock; and waiting until its database is migrated."""

import contextlib
import fcntl
import json
import os
import secrets
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from training_core.errors import TroupeError

PREPARED = "TROUPE_PREPARED"
"""Variable with the path of a file that `up` creates once the database is migrated."""
POLL = 0.02
MODEL_IN_WORK = "base-model.making"
"""A file that exists in TROUPE_HOME while `up` creates the base model."""


class StackError(TroupeError):
    """The local stack cannot start or stay up; the message contains the remedy."""


@dataclass
class StackFacts:
    """The contents of $TROUPE_HOME/stack.json (mode 0600), written by a running stack."""

    id: str
    """Set as TROUPE_STACK_ID in the environment of every process of the stack."""
    pid: int
    url: str
    scratch: str
    """Private folder of sockets, removed on shutdown."""
    environment: dict[str, str] = field(default_factory=dict)
    """Addresses and secrets for management commands that run next to the stack."""


@dataclass(frozen=True)
class Home:
    """One data folder. At most one stack uses it at a time."""

    root: Path

    @property
    def logs(self) -> Path:
        """One log file per child."""
        return self.root / "log"

    @property
    def backups(self) -> Path:
        """Database dumps before migrations."""
        return self.root / "backups"

    @property
    def facts_file(self) -> Path:
        """Exists while a stack runs."""
        return self.root / "stack.json"

    @property
    def prepared(self) -> Path:
        """Exists while a stack runs, once its database is migrated. Not in the scratch folder, whose old files may be removed."""
        return self.root / "prepared"

    def make(self) -> None:
        """Create the folders. A folder created here can be traversed by the database account of root, but not listed.

        Raises StackError if the folder is not writable.
        """
        try:
            if not self.root.exists():
                self.root.mkdir(parents=True)
                self.root.chmod(0o711 if os.geteuid() == 0 else 0o700)
            for folder in (self.logs, self.backups):
                folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise StackError(f"TROUPE_HOME={self.root} cannot be used: {error}") from error

    def lock(self) -> int:
        """Lock the folder for this process; the lock is held until the descriptor is closed or the process ends.

        Raises StackError if another stack holds the lock.
        """
        descriptor = os.open(self.root / "up.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            facts = self.read_facts()
            where = f" at {facts.url} (process {facts.pid})" if facts else ""
            raise StackError(
                f"A stack already runs on {self.root}{where}; stop it first, or set TROUPE_HOME"
            ) from None
        return descriptor

    def read_facts(self) -> StackFacts | None:
        """Return the facts written by a stack that is running or was killed; None if there are none."""
        try:
            return StackFacts(**json.loads(self.facts_file.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def write_facts(self, facts: StackFacts) -> None:
        """Write stack.json."""
        write_private(self.facts_file, asdict(facts))

    def forget_facts(self) -> None:
        """Delete what states that a stack runs: on shutdown, and before a start."""
        for file in (self.facts_file, self.prepared):
            file.unlink(missing_ok=True)

    def secret(self, name: str) -> str:
        """Return a secret of this home, created once and stored in a file of mode 0600."""
        path = self.root / name
        with contextlib.suppress(FileExistsError):
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(secrets.token_urlsafe(48))
        text = path.read_text().strip()
        if not text:
            raise StackError(
                f"{path} is empty; delete it to create a new secret (all users must log in again)"
            )
        return text


def write_private(path: Path, data: dict[str, Any]) -> None:
    """Write JSON with mode 0600, replacing the file atomically."""
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        json.dump(data, file, indent=1)
    fresh.replace(path)


def wait_until_prepared() -> None:
    """Wait for the file, without a limit: a process ends with `up`. Returns at once without the variable."""
    path = os.environ.get(PREPARED)
    while path and not Path(path).exists():
        time.sleep(POLL)

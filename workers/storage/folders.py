"""Folders through which processes communicate.

<home>/runs/<run>/                of a run
  config.toml                     resolved config
  checkpoints/iteration-000020/   one folder each, shared by all attempts; see training_core/checkpoints.py
  attempt-1/
    ingest.json                   {"token"}: the token for its events; only the server's user may read it
    spool/<producer>.jsonl        events, one JSON object a line, written before they are sent
    spool/<producer>.ack          last seq the server acknowledged (decimal text)
    driver.log                    stdout and stderr of the driver (local launcher; Ray has its own logs)

<home>/work/<job>/   of a short job; each file is written atomically
  config.toml        resolved config
  request.json       {"kind", "parameters", "checkpoint", "other"}: the request; paths are absolute or empty
  progress.json      {"done": 0..1, "text"}: progress
  moment.json        state of a conversation: moves so far, and the person's prompt
  said-000.json      the person's text in their turn 0, 1, ...
  episodes.jsonl     played episodes, with the fields of an episode event
  damage.json        {"which": "checkpoint" or "other", "found": description}: a damaged checkpoint
  result.json        results; written last
  driver.log         stdout and stderr (local launcher; Ray has its own logs)

All processes of a run need to see the same folder: each writes its part of a checkpoint there, and finds what others wrote. To check it,
the driver creates a file with a random name, which every worker reads: on a node without the mount, the same path is another folder or
none.
"""

import json
import os
import secrets
import socket
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training_core.errors import TroupeError
from workers.http import write_private

INGEST = "ingest.json"


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run."""

    root: Path

    @property
    def config(self) -> Path:
        """The resolved config as TOML."""
        return self.root / "config.toml"

    @property
    def checkpoints(self) -> Path:
        """Folder of checkpoints."""
        return self.root / "checkpoints"

    def attempt(self, number: int) -> Path:
        """Folder of one attempt."""
        return self.root / f"attempt-{number}"

    def write_token(self, attempt: int, token: str) -> None:
        """Store the token for the events of an attempt. Command lines, and the environments of Ray's jobs, are visible to all users
        of a machine. Raises OSError.
        """
        folder = self.attempt(attempt)
        folder.mkdir(parents=True, exist_ok=True)
        write_private(folder / INGEST, {"token": token})

    def token(self, attempt: int) -> str:
        """Return the token for the events of an attempt. Raises FolderNotShared, OSError."""
        file = self.attempt(attempt) / INGEST
        try:
            return str(json.loads(file.read_text())["token"])
        except FileNotFoundError as error:
            raise unseen(f"the server's file {file}", error) from error
        except PermissionError as error:
            raise FolderNotShared(
                f"node {socket.gethostname()} may not read {file}",
                remedy="start Ray as the user that Troupe's server runs as, on every node",
            ) from error

    def spool(self, attempt: int) -> Path:
        """Folder of one attempt's event spools."""
        return self.attempt(attempt) / "spool"


@dataclass(frozen=True)
class JobFolder:
    """Files of one job."""

    root: Path

    @property
    def config(self) -> Path:
        """The resolved config as TOML."""
        return self.root / "config.toml"

    @property
    def episodes(self) -> Path:
        """Path of the episodes, one per line."""
        return self.root / "episodes.jsonl"

    def open(self, toml: str, request: Mapping[str, Any]) -> None:
        """Create the folder with config and request. Raises OSError."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.config.write_text(toml)
        self.write("request", request)

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Write a document atomically. Raises OSError."""
        draft = self.root / f".{name}.json.{os.getpid()}"
        draft.write_text(json.dumps(document))
        draft.replace(self.root / f"{name}.json")

    def read(self, name: str) -> dict[str, Any] | None:
        """A document; None if it does not exist yet. Raises OSError, ValueError."""
        try:
            document = json.loads((self.root / f"{name}.json").read_text())
        except FileNotFoundError:
            return None
        return document if isinstance(document, dict) else None

    def keep(self, episodes: Iterable[Mapping[str, Any]]) -> None:
        """Append episodes. Raises OSError."""
        with self.episodes.open("a") as file:
            file.writelines(json.dumps(episode) + "\n" for episode in episodes)

    def kept(self) -> list[dict[str, Any]]:
        """All complete episodes so far, without a line that is still being written. Raises OSError."""
        try:
            lines = self.episodes.read_text().split("\n")[:-1]
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]

    def say(self, turn: int, text: str) -> None:
        """Write the person's text in their turn number `turn`, from 0. Raises OSError."""
        self.write(f"said-{turn:03d}", {"text": text})

    def said(self, turn: int) -> str | None:
        """The person's text in that turn; None until they have answered. Raises OSError, ValueError."""
        words = self.read(f"said-{turn:03d}")
        return None if words is None else str(words["text"])


class FolderNotShared(TroupeError):
    """A node does not see what the driver writes into the run's folder."""


@contextmanager
def marked(folder: Path) -> Iterator[Path]:
    """A file in `folder` that exists for the duration of the block and that no other folder has. Raises OSError."""
    mark = folder / f".seen-{secrets.token_hex(8)}"
    mark.touch()
    try:
        yield mark
    finally:
        mark.unlink(missing_ok=True)


def check_mark(worker: object, mark: Path) -> None:
    """Read the mark in this process. Raises FolderNotShared, which names the machine.

    `worker` is the actor whose `__ray_call__` runs this function.
    """
    try:
        mark.read_bytes()
    except OSError as error:
        raise unseen(f"the driver's folder {mark.parent}", error) from error


def unseen(folder: str, error: OSError) -> FolderNotShared:
    """Return the error of a folder that this machine does not see."""
    return FolderNotShared(
        f"node {socket.gethostname()} does not see {folder} ({error.strerror})",
        remedy="mount TROUPE_HOME at the same path on every node (docs/start/getting-started.md)",
    )

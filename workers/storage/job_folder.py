"""The folder of a short job: its files, through which the job and the server communicate.

<home>/work/<job>/
  config.toml        resolved config
  request.json       {"kind", "parameters", "checkpoint", "other"}: the request; paths are absolute or empty
  progress.json      {"done": 0..1, "text"}: progress
  moment.json        state of a conversation: moves so far, and the person's prompt
  said-000.json      the person's text in their turn 0, 1, ...
  episodes.jsonl     played episodes, with the fields of an episode event
  damage.json        {"which": "checkpoint" or "other", "found": description}: a damaged checkpoint
  result.json        results; written last
  driver.log         stdout and stderr (local launcher; Ray has its own logs)
Each file is written atomically.
"""

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


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

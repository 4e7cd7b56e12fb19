"""Where a short job keeps what on disk, and the words that it and the server leave each other there.

<home>/work/<job>/
  config.toml        resolved config that it plays under
  request.json       {"kind", "parameters", "checkpoint", "other"}: what is wanted; paths are absolute or empty
  progress.json      {"done": 0..1, "text"}: how far it is
  moment.json        a conversation as it stands: moves so far, and what the person is asked
  said-000.json      what the person says in their turn 0, 1, ...
  episodes.jsonl     episodes that were played, as the fields of an episode event
  damage.json        {"which": "checkpoint" or "other", "found": what is wrong}: a checkpoint that it cannot play
  result.json        figures; written last
  driver.log         stdout and stderr (local launcher; Ray keeps its own)
Each file is written whole or not at all.
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
        """One episode a line."""
        return self.root / "episodes.jsonl"

    def open(self, toml: str, request: Mapping[str, Any]) -> None:
        """Lay down what is wanted. Raises OSError."""
        self.root.mkdir(parents=True, exist_ok=True)
        self.config.write_text(toml)
        self.write("request", request)

    def write(self, name: str, document: Mapping[str, Any]) -> None:
        """Put a document in place whole. Raises OSError."""
        draft = self.root / f".{name}.json.{os.getpid()}"
        draft.write_text(json.dumps(document))
        draft.replace(self.root / f"{name}.json")

    def read(self, name: str) -> dict[str, Any] | None:
        """A document; None where there is none yet. Raises OSError, ValueError."""
        try:
            document = json.loads((self.root / f"{name}.json").read_text())
        except FileNotFoundError:
            return None
        return document if isinstance(document, dict) else None

    def keep(self, episodes: Iterable[Mapping[str, Any]]) -> None:
        """Add episodes. Raises OSError."""
        with self.episodes.open("a") as file:
            file.writelines(json.dumps(episode) + "\n" for episode in episodes)

    def kept(self) -> list[dict[str, Any]]:
        """All whole episodes so far; a line that is still being written is left out. Raises OSError."""
        try:
            lines = self.episodes.read_text().split("\n")[:-1]
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in lines]

    def say(self, turn: int, text: str) -> None:
        """The person's words in their turn number `turn`, from 0. Raises OSError."""
        self.write(f"said-{turn:03d}", {"text": text})

    def said(self, turn: int) -> str | None:
        """What the person said in that turn; None until they have. Raises OSError, ValueError."""
        words = self.read(f"said-{turn:03d}")
        return None if words is None else str(words["text"])

"""The folder of a run: its files.

<home>/runs/<run>/
  config.toml              resolved config
  checkpoints/iteration-000020/   one folder each, shared by all attempts; see training_core/checkpoints.py
  attempt-1/
    spool/<producer>.jsonl        events, one JSON object a line, written before they are sent
    spool/<producer>.ack          last seq the server acknowledged (decimal text)
    driver.log                    stdout and stderr of the driver (local launcher; Ray has its own logs)
"""

from dataclasses import dataclass
from pathlib import Path


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

    def spool(self, attempt: int) -> Path:
        """Folder of one attempt's event spools."""
        return self.attempt(attempt) / "spool"

"""Publishes the gateway's address to external agents while the run lasts: a file in its folder that only its owner can read."""

import json
import os
from pathlib import Path

from workers.protocol import Started

FILE = "gateway.json"


def announce(started: Started, folder: Path) -> None:
    """Write address and token of the gateway to <folder>/gateway.json atomically, if the run has one."""
    if started.gateway is None:
        return
    draft = folder / f"{FILE}.draft"
    draft.unlink(missing_ok=True)
    with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(started.gateway, file, indent=1)
    draft.replace(folder / FILE)


def retract(started: Started | None, folder: Path) -> None:
    """Remove the file, unless it has the address of another attempt."""
    file = folder / FILE
    if started and started.gateway and file.exists() and json.loads(file.read_text()) == started.gateway:
        file.unlink()

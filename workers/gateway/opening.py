"""Opens the gateway of a run that needs one, and publishes its address to external agents while the run lasts."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training_core.config.rollout import Agent, RolloutBuffer
from training_core.config.run import RunConfig
from workers.protocol import Started

if TYPE_CHECKING:
    from workers.gateway.gateway import Gateway

FILE = "gateway.json"
"""In the run's folder, readable by its owner only."""


def open_gateway(config: RunConfig, tokenizers: Mapping[str, Any], threads: int) -> "Gateway | None":
    """A started gateway, or None if the workflow needs none. `threads`: number of policies that generate at once.

    Raises ConfigError if its port is in use.
    """
    section = config.workflow
    if isinstance(section, RolloutBuffer) and section.engine_url == "policies":
        section = Agent()  # the buffer's generator calls the run's policies
    if not isinstance(section, Agent):
        return None
    from workers.gateway.gateway import Gateway  # here: other runs need no web server

    gateway = Gateway(section, tokenizers, threads=threads)
    gateway.start()
    return gateway


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

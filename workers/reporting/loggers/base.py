"""What writes a run's curves somewhere else as well."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol


@dataclass(frozen=True)
class Opening:
    """What a logger is begun with."""

    folder: Path
    """The run's own; loggers write below it."""
    project: str
    run: str
    """Id of the run."""
    name: str
    """Under which people find it."""
    config: Mapping[str, Any]
    """The resolved config, as JSON has it."""
    online: bool = False
    """Whether what can go to a service of others goes there at once."""


class Logger(Protocol):
    """Called by one thread, in the order in which the run spoke. Steps may come again and may fall."""

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers of one step by name."""
        ...

    def histogram(self, step: int, name: str, numbers: Sequence[float]) -> None:
        """How numbers of one step are distributed; at least one."""
        ...

    def close(self) -> None:
        """Write what is left."""
        ...

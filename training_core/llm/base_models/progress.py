"""Progress callbacks of long operations."""

from collections.abc import Callable

Progress = Callable[[float, str], None]
"""Called with the share done (0..1) and the current step."""


def silent(done: float, text: str) -> None:
    """Ignore progress."""

"""How long work tells how far it is."""

from collections.abc import Callable

Progress = Callable[[float, str], None]
"""Called with the share done (0..1) and what is being done."""


def silent(done: float, text: str) -> None:
    """Tell nobody."""

"""Environments that a package steps all at once: where one raises, none can go on."""

from collections.abc import Iterator
from contextlib import contextmanager

from training_core.errors import EnvironmentFailure


@contextmanager
def all_at_once(name: str) -> Iterator[None]:
    """Around a call that moves them all. `name`: what they are, for people. Raises EnvironmentFailure where anything is raised."""
    try:
        yield
    except Exception as error:
        raise EnvironmentFailure(
            f"{name}: {type(error).__name__}: {error}. These environments are stepped all at once, so none can go on: mend it, and "
            "try it by itself before you launch again"
        ) from error

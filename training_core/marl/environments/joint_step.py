"""Environments that a package steps together: if one raises, none can continue."""

from collections.abc import Iterator
from contextlib import contextmanager

from training_core.errors import EnvironmentFailure


@contextmanager
def joint_step_errors(name: str) -> Iterator[None]:
    """Context for a call that steps them all. `name` is their display name. Converts any exception to EnvironmentFailure."""
    try:
        yield
    except Exception as error:
        raise EnvironmentFailure(
            f"{name}: {type(error).__name__}: {error}. These environments are stepped together, so none can "
            "continue: fix it, and test it separately before you launch again"
        ) from error

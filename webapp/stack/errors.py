"""Errors that prevent the stack from starting."""

from training_core.errors import TroupeError


class StackError(TroupeError):
    """The local stack cannot start or stay up; the message contains the remedy."""

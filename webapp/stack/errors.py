"""What stops the stack from starting."""

from training_core.errors import TroupeError


class StackError(TroupeError):
    """The local stack cannot be started or kept up; the message says what to do."""

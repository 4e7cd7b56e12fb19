"""Checkpoints on disk, as the tests of checkpoints make them."""

from tests.webapp.checkpoints.conftest import make, sent

__all__ = ["make", "sent"]

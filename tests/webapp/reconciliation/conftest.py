"""Reconciliation looks at the runs that scheduling submits: the same launcher and the same drivers."""

from tests.webapp.scheduling.conftest import launcher, long_up, say, sent

__all__ = ["launcher", "long_up", "say", "sent"]

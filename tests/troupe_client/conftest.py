"""The client's tests report to the ingest server of the reporter's tests."""

from tests.workers.reporting.conftest import ingest, url

__all__ = ["ingest", "url"]

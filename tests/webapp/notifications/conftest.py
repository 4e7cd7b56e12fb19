"""A receiver on this machine."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.webapp.notifications.receiving import Receiver, receiving
from webapp.notifications import channel_process as process


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as told:
        yield told


@pytest.fixture(autouse=True)
def _slow_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that send may start slowly."""
    monkeypatch.setattr(process, "SECONDS", 120.0)


@pytest.fixture(autouse=True)
def _loopback(settings: Any) -> None:
    """Receivers on this machine are allowed."""
    settings.TROUPE_WEBHOOK_NETWORKS = ["127.0.0.0/8"]

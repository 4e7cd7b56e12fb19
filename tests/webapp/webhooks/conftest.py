"""A receiver on this machine, and a worker that is only noted."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.webapp.webhooks.receiving import Receiver, receiving


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as told:
        yield told


@pytest.fixture(autouse=True)
def _loopback(settings: Any) -> None:
    """Receivers on this machine are allowed."""
    settings.TROUPE_WEBHOOK_NETWORKS = ["127.0.0.0/8"]


@pytest.fixture(autouse=True)
def sent(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Deliveries that the worker was woken for."""
    woken: list[int] = []
    monkeypatch.setattr("webapp.webhooks.services._deliver_soon", woken.append)
    return woken

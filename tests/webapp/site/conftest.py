"""Two projects of two people."""

from pathlib import Path

import pytest
from django.conf import settings

from tests.webapp.site.world import World, world_make


@pytest.fixture
def worlds(db: None, monkeypatch: pytest.MonkeyPatch) -> tuple[World, World]:
    """The project `mine` and the project `theirs`, each of its own person; nobody is there to take messages."""
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr("webapp.scheduling.services.submit_soon", lambda run_id: None)
    return world_make("mine"), world_make("theirs")

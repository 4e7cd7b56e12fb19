"""Short jobs without processes."""

from pathlib import Path
from typing import Any

import pytest

from workers.launchers.registry import FakeLauncher


@pytest.fixture
def launcher(settings: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeLauncher:
    settings.TROUPE_HOME = tmp_path
    fake = FakeLauncher()
    monkeypatch.setattr("webapp.jobs.services.make_launcher", lambda kind: fake)
    return fake

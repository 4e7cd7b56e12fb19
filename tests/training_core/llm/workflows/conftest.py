"""The toy world of counting, known to hosts by its type."""

import pytest

from tests.training_core.llm.workflows.counting import CountingEnvironment
from training_core.config.base import EnvironmentSection
from training_core.llm.environments.registry import ENVIRONMENTS, EnvironmentKind


@pytest.fixture(autouse=True)
def _counting_world(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ENVIRONMENTS, "counting", EnvironmentKind(EnvironmentSection, CountingEnvironment))

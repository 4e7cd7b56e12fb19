"""Callers of the API: with a token of some scopes, with a session, with nothing."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from webapp.accounts.models import User
from webapp.accounts.tokens import token_create
from webapp.runs.models import Attempt, Run
from webapp.transcripts.models import Episode

Call = Callable[..., Any]


@pytest.fixture(autouse=True)
def _no_broker(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody is there to take messages."""
    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)
    monkeypatch.setattr("webapp.scheduling.services.submit_soon", lambda run_id: None)


def call_with(secret: str) -> Call:
    """A caller with that bearer token; the test client raises what a view raises, so that a 500 cannot hide."""

    def call(path: str, body: Any = None, **query: Any) -> Any:
        headers = {"Authorization": f"Bearer {secret}"} if secret else {}
        url = path if path.startswith(("/", "http")) else f"/api/v1/{path}"
        if body is None:
            return Client(headers=headers).get(url, query or None)
        data = body if isinstance(body, bytes) else json.dumps(body)
        return Client(headers=headers).post(url, data, content_type="application/json")

    return call


def caller(user: User, *scopes: str, run: Run | None = None) -> Call:
    """A caller with a token of this person."""
    return call_with(token_create(user, "test", scopes, run_id=run and run.pk)[1])


@pytest.fixture
def call(user: User) -> Call:
    """The project's owner, with a token that may do everything."""
    return caller(user, "admin")


@pytest.fixture
def attempt(run: Run) -> Attempt:
    return Attempt.objects.create(run=run, number=1, submission_id=f"troupe-{run.pk}-1", state="live")


def episode(run: Run, name: str, **fields: Any) -> Episode:
    """A row of facts without a body."""
    base = {
        "attempt": 1, "cursor": 1, "iteration": 1, "kind": "train", "task": "t", "title": "to the goal", "outcome": "",
        "success": True, "episode_return": 1.0, "turn_count": 1, "tokens": 3, "started": 1.0, "ended": 2.0,
    }  # fmt: skip
    return Episode.objects.create(run=run, name=name, **(base | fields))

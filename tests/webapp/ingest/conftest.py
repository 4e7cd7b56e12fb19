"""A run with one live attempt, and ways to send it events."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import zstandard
from django.conf import settings
from django.test import Client

from webapp.accounts.tokens import token_create
from webapp.runs.models import Attempt, Run

Send = Callable[..., Any]


@pytest.fixture
def attempt(run: Run) -> Attempt:
    return Attempt.objects.create(
        run=run, number=1, submission_id=f"troupe-{run.pk}-1", state=Attempt.State.LIVE
    )


@pytest.fixture
def token(run: Run) -> str:
    """Secret of the run's own ingest token."""
    return token_create(run.owner, "ingest", ["ingest"], run_id=run.pk)[1]


@pytest.fixture
def event(run: Run, attempt: Attempt) -> Callable[..., dict[str, Any]]:
    """A metrics event with that seq; keywords replace fields, None drops them."""

    def make(seq: int, **fields: Any) -> dict[str, Any]:
        base = {
            "run": run.pk, "attempt": 1, "producer": "p1", "seq": seq, "time": 1000.0 + seq,
            "type": "metrics", "step": seq, "values": {"train/return": seq / 2},
        }  # fmt: skip
        if fields.get("type", "metrics") != "metrics":
            del base["step"], base["values"]
        return {key: value for key, value in (base | fields).items() if value is not None}

    return make


@pytest.fixture
def post(run: Run, token: str) -> Send:
    """Send raw bytes; the test client raises what a view raises, so that a 500 cannot hide."""

    Path(settings.STATIC_ROOT).mkdir(parents=True, exist_ok=True)  # or its middleware warns

    def send(body: bytes, encoding: str = "", secret: str = token, run_id: str = run.pk) -> Any:
        headers = {"Content-Encoding": encoding} if encoding else {}
        if secret:
            headers["Authorization"] = f"Bearer {secret}"
        url = f"/api/v1/runs/{run_id}/events/"
        return Client().post(url, data=body, content_type="application/x-ndjson", headers=headers)

    return send


@pytest.fixture
def send(post: Send) -> Send:
    """Send events as the reporter does."""

    def send_events(*items: dict[str, Any], **options: Any) -> Any:
        body = b"".join(json.dumps(item).encode() + b"\n" for item in items)
        return post(zstandard.compress(body), "zstd", **options)

    return send_events

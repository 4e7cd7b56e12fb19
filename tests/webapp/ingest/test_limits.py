"""Limits that hold before and while a batch is stored: bombs, names of metrics, facts; texts fit their columns."""

import asyncio
import gc
import gzip
import json
from collections.abc import Callable, MutableMapping
from typing import Any

import pytest
import zstandard
from django.conf import settings
from django.db import connection, models
from django.test import Client
from django.test.utils import CaptureQueriesContext

from webapp.accounts.models import User
from webapp.accounts.tokens import token_create
from webapp.checkpoints.models import Checkpoint
from webapp.ingest import batches as bodies
from webapp.ingest.batches import MAX_BODY, IngestRejected
from webapp.ingest.models import Producer
from webapp.media.models import MediaValue
from webapp.metrics.models import Series
from webapp.runs.models import Attempt, LogLine, Phase, Run
from webapp.runs.selectors import facts_of, packages_of
from webapp.timeline.models import Utilisation
from webapp.transcripts.models import Episode, EpisodeAnnotation
from workers.telemetry import events
from workers.telemetry.limits import MAX_DATA

MAX_OTHERS = settings.DATA_UPLOAD_MAX_MEMORY_SIZE


@pytest.mark.parametrize(
    ("path", "most"),
    [("/account/login/", MAX_OTHERS), ("/api/v1/jobs/", MAX_OTHERS), ("/api/v1/runs/a/events/", MAX_BODY)],
)
def test_a_body_that_is_announced_too_large_is_not_read(path: str, most: int) -> None:
    from webapp.site.asgi import (
        application,  # here: it takes the hosts that are allowed when it is imported, the tests' own with them
    )

    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        assert sent, "it was read before the answer"
        return {"type": "http.disconnect"}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    headers = [(b"host", b"127.0.0.1"), (b"content-length", str(most + 1).encode())]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    asyncio.run(application(scope, receive, send))
    assert sent[0]["status"] == 413
    assert (
        sent[1]["body"]
        == b'{"code": "too_large", "detail": "the body of a request may have at most %d bytes"}' % most
    )


pytestmark = pytest.mark.django_db
Make = Callable[..., dict[str, Any]]
Send = Callable[..., Any]


def status(event: Make, seq: int, facts: Any, state: str = "running") -> dict[str, Any]:
    return event(seq, type="status", state=state, iteration=0, message="", facts=facts)


@pytest.mark.parametrize(
    "inside",
    [b"[" + b"[]," * 3_000_000 + b"[]]", b"[" + b"{}," * 450_000 + b"{}]", b"[" * 5_000_000, b'{"a":' * 450_000],
)  # fmt: skip
def test_bodies_of_too_many_values_are_refused_unread(post: Send, event: Make, inside: bytes) -> None:
    body = (
        json.dumps(status(event, 1, {})).encode().replace(b'"facts": {}', b'"facts": {"a": ' + inside + b"}")
    )
    packed = zstandard.compress(body)
    assert len(packed) < 20_000
    answer = post(packed, "zstd")
    assert answer.status_code == 413 and answer.json()["code"] == "too_large"
    assert "send fewer events" in answer.json()["detail"]


def test_deep_nesting_is_an_error_of_the_event(post: Send, event: Make) -> None:
    facts: Any = {}
    for _ in range(40):
        facts = {"a": facts}
    answer = post(json.dumps(status(event, 1, facts)).encode())
    assert answer.status_code == 400 and "nested deeper than 32" in str(answer.json()["errors"])


@pytest.mark.parametrize(("pack", "encoding"), [(gzip.compress, "gzip"), (zstandard.compress, "zstd")])
def test_several_members_of_a_body_are_read(
    run: Run, event: Make, post: Send, pack: Callable[[bytes], bytes], encoding: str
) -> None:
    parts = [pack(json.dumps(event(seq)).encode() + b"\n") for seq in range(1, 4)]
    assert post(b"".join(parts), encoding).json() == {"acknowledged": 3, "command": None}
    assert post(parts[0] + b"rubbish", encoding).status_code == 400
    answer = post(b"".join(parts)[:-1], encoding)
    assert answer.status_code == 400 and f"the body is not valid {encoding}: it is truncated" in answer.text


def test_members_are_counted(monkeypatch: pytest.MonkeyPatch, post: Send) -> None:
    monkeypatch.setattr(bodies, "MAX_MEMBERS", 3)
    assert "is not valid JSON" in str(post(gzip.compress(b"") * 3, "gzip").json())
    answer = post(gzip.compress(b"") * 4, "gzip")
    assert answer.status_code == 400 and "more than 3 members" in str(answer.json())


def test_a_large_body_waits_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "PATIENCE", 0.01)
    with bodies.Room() as first, bodies.Room() as second:
        first.claim(bodies.LARGE + 1)
        first.claim(bodies.LARGE + 2)
        second.claim(bodies.LARGE)
        with pytest.raises(IngestRejected) as refused:
            second.claim(bodies.LARGE + 1)
        detail = "other large batches are being stored; send this batch again later"
        assert (refused.value.status, refused.value.payload) == (503, {"code": "busy", "detail": detail})
    with bodies.Room() as third:
        third.claim(bodies.LARGE + 1)


def test_nothing_is_collected_while_a_large_batch_is_parsed(run: Run, event: Make, post: Send) -> None:
    """A collection of a million lists holds the interpreter for more than a second: nobody else is answered."""
    line = json.dumps(status(event, 1, {"a": "LISTS"})).encode()
    held = [len(gc.get_objects())]

    def noted(phase: str, info: dict[str, int]) -> None:
        held.append(len(gc.get_objects()))

    gc.callbacks.append(noted)
    try:
        answer = post(line.replace(b'"LISTS"', b"[" + b",".join([b"[]"] * 900_000) + b"]"))
    finally:
        gc.callbacks.remove(noted)
    assert answer.status_code == 400 and str(MAX_DATA) in answer.text and gc.isenabled()
    assert max(held) < held[0] + 100_000


def test_nul_is_replaced_and_what_only_looks_like_it_is_not(run: Run, event: Make, post: Send) -> None:
    line = json.dumps(event(1, type="log", level="info", source="s", message="MESSAGE"))
    said = rb"a\u0000b\u0000\u0000c\\u0000d\\\u0000e\\\\u0000"
    assert post(line.encode().replace(b"MESSAGE", said)).status_code == 200
    bad = "\ufffd"
    assert LogLine.objects.get().message == f"a{bad}b{bad}{bad}c\\u0000d\\{bad}e\\\\u0000"


def test_names_beyond_the_limit_are_counted_and_logged_once(
    run: Run, event: Make, send: Send, settings: Any
) -> None:
    settings.METRICS_PER_RUN = 4
    assert send(event(1, values={"a": 1, "b": 2, "c": 3})).status_code == 200
    assert send(event(2, values={"d": 1, "e": 2, "f": 3, "a": 4})).status_code == 200
    assert send(event(3, values={"e": 5}), event(4, values={"e": 6, "b": 7})).status_code == 200
    assert sorted(Series.objects.values_list("key", flat=True)) == ["a", "b", "c", "d"]
    assert dict(Series.objects.values_list("key", "count")) == {"a": 2, "b": 2, "c": 1, "d": 1}
    run.refresh_from_db()
    assert run.values_dropped == 4
    line = LogLine.objects.get()
    assert line.level == "warning" and "are not stored: e, f ..." in line.message


def test_facts_are_merged_up_to_a_limit(run: Run, event: Make, send: Send) -> None:
    half = "x" * (MAX_DATA * 2 // 5)
    send(status(event, 1, {"a": half}, "starting"))
    send(status(event, 2, {"b": half}))
    assert set(facts_of(Run.objects.get())) == {"a", "b", "starting"}
    assert not LogLine.objects.exists()
    send(status(event, 3, {"c": half}))
    assert set(facts_of(Run.objects.get())) == {"c"}
    assert "earlier ones were deleted" in LogLine.objects.get().message


def test_batches_and_lists_neither_read_nor_write_facts(
    run: Run, event: Make, send: Send, ada: Client
) -> None:
    with CaptureQueriesContext(connection) as asked:
        assert send(event(1), event(2, type="heartbeat", iteration=1)).status_code == 200
        for page in ("/runs/", "/api/v1/runs/"):
            assert ada.get(page).status_code == 200
    assert asked.captured_queries
    assert not [each["sql"] for each in asked.captured_queries if "facts" in each["sql"]]


@pytest.mark.slow
def test_a_run_with_huge_facts_is_shown_cut(run: Run, user: User, ada: Client) -> None:
    """As earlier versions stored them."""
    Run.objects.filter(pk=run.pk).update(facts={"packages": {"torch": "2"}, "a": [[]] * 1_000_000})
    stored = Run.objects.get()
    assert packages_of(stored) == {"torch": "2"} and "a" not in facts_of(stored)
    headers = {"authorization": f"Bearer {token_create(user, 'a', ['read'])[1]}"}
    for page in (f"/api/v1/runs/{run.pk}/", "/api/v1/runs/"):
        answer = ada.get(page, headers=headers)
        assert answer.status_code == 200 and len(answer.content) < MAX_DATA
    detail = ada.get(f"/api/v1/runs/{run.pk}/", headers=headers).json()
    assert "omitted" in detail["facts"]["cut"] and detail["values_dropped"] == 0
    for page in ("/runs/", f"/runs/{run.pk}/", f"/runs/{run.pk}/config/"):
        assert ada.get(page).status_code == 200


@pytest.mark.parametrize(
    "facts", [{"packages": [1]}, {"base_models": [1]}, {"base_models": {"planner": [1]}}, {"packages": "x"}]
)
def test_facts_of_other_shapes_break_no_page(run: Run, ada: Client, facts: Any) -> None:
    Run.objects.filter(pk=run.pk).update(facts=facts)
    for page in (f"/runs/{run.pk}/", f"/runs/{run.pk}/config/"):
        assert ada.get(page).status_code == 200


COLUMNS: dict[tuple[type[Any], str], tuple[type[models.Model], str]] = {
    (events.Event, "run"): (Run, "id"),
    (events.Event, "producer"): (Producer, "producer"),
    (events.MetricsEvent, "values"): (Series, "key"),
    (events.MediaEvent, "name"): (MediaValue, "name"),
    (events.EpisodeEvent, "episode"): (Episode, "name"),
    (events.EpisodeEvent, "kind"): (Episode, "kind"),
    (events.EpisodeEvent, "task"): (Episode, "task"),
    (events.EpisodeEvent, "title"): (Episode, "title"),
    (events.EpisodeEvent, "outcome"): (Episode, "outcome"),
    (events.EpisodeEvent, "error"): (Episode, "error"),
    (events.EpisodeAnnotationEvent, "episode"): (EpisodeAnnotation, "episode_name"),
    (events.PhaseEvent, "worker"): (Phase, "worker"),
    (events.PhaseEvent, "phase"): (Phase, "phase"),
    (events.PhaseEvent, "policy"): (Phase, "policy"),
    (events.UtilisationEvent, "worker"): (Utilisation, "worker"),
    (events.UtilisationEvent, "device"): (Utilisation, "device"),
    (events.CheckpointEvent, "path"): (Checkpoint, "path"),
    (events.CheckpointEvent, "damaged"): (Checkpoint, "damaged"),
    (events.LogEvent, "level"): (LogLine, "level"),
    (events.LogEvent, "source"): (LogLine, "source"),
    (events.LogEvent, "message"): (LogLine, "message"),
    (events.StatusEvent, "state"): (Run, "state"),
    (events.StatusEvent, "message"): (Attempt, "reason"),
    (events.StatusEvent, "remedy"): (Run, "remedy"),
}  # fmt: skip
IDENTITY = {"type"}
"""Words that are no column, and the run's id, which is compared and not stored."""


def longest(schema: dict[str, Any]) -> int | None:
    """Characters of the longest text that a JSON schema allows; None: any number."""
    if "const" in schema or "enum" in schema:
        return max(len(word) for word in schema.get("enum", [schema.get("const")]))
    if "propertyNames" in schema:
        return longest(schema["propertyNames"])
    found = schema.get("maxLength")
    return int(found) if found is not None else None


def test_no_text_of_an_event_is_longer_than_its_column() -> None:
    checked = set()
    for kind in [events.Event, *events.Event.__subclasses__()]:
        for name, schema in kind.model_json_schema()["properties"].items():
            if schema.get("type") != "string" or name in IDENTITY:
                continue
            owner = events.Event if name in events.Event.model_fields else kind
            model, column = COLUMNS[owner, name]
            allowed, room = longest(schema), model._meta.get_field(column).max_length
            assert allowed is not None, f"{kind.__name__}.{name} has no longest text"
            if (owner, name) != (events.Event, "run"):  # it is compared with the address, never stored
                assert room is None or allowed <= room, f"{kind.__name__}.{name}: {allowed} > {room}"
            checked.add((owner, name))
    key = events.MetricsEvent.model_json_schema()["properties"]["values"]
    assert (longest(key) or 0) <= (Series._meta.get_field("key").max_length or 0)
    assert checked | {(events.MetricsEvent, "values")} == set(COLUMNS)

"""Bad bodies and bad queries: always a clear 4xx, never a 500."""

import json
from typing import Any
from urllib.parse import quote

import pytest
from django.test import Client

from tests.webapp.api.conftest import Call
from webapp.accounts.tokens import token_create
from webapp.api.parsers import MAX_BODY
from webapp.runs.models import Run

PRESET = "plan_path_duo"


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 400), (b"not json", 400), (b'{"preset": "plan_path_duo"', 400), (b"[]", 400), (b'["preset"]', 400),
        (b"null", 400), (b"7", 400), (b'"plan_path_duo"', 400), (b"\xff\xfe", 400), (b"{}", 400),
        (b'{"preset": "plan_path_duo", "overrides": {"run.seed": NaN}}', 400),
        (b'{"preset": "plan_path_duo", "overrides": {"algorithm.kl_coefficient": 1e999}}', 400),
        (b'{"preset": "plan_path_duo", "name": "a\\u0000b"}', 400),
        (b'{"preset": "plan_path_duo", "overrides": {"run.description": "a\\u0000b"}}', 400),
        (b'{"preset": "plan_path_duo", "overrides": {"run.description": "\\ud800"}}', 400),
        (b'{"config": ' + b'{"a":' * 5000 + b"1" + b"}" * 5000 + b"}", 400),
        (b'{"config": ' + b"[" * 900 + b"]" * 900 + b"}", 400),
        (b'{"preset": "plan_path_duo", "name": "' + b"x" * MAX_BODY + b'"}', 413),
        (b" " * (MAX_BODY + 1), 413),
    ],
)  # fmt: skip
def test_bodies_that_are_not_understood(call: Call, project: Any, body: bytes, status: int) -> None:
    answer = call("runs/", body)
    assert answer.status_code == status, answer.content
    assert answer.json()["detail"]
    assert not Run.objects.exists()


def test_errors_of_and_between_fields_come_together(call: Call, project: Any) -> None:
    overrides = {"run.seed": "many", "rollout.group_size": 1, "evaluation.probes": 300}
    answer = call("runs/", {"preset": PRESET, "overrides": overrides})
    assert answer.status_code == 400
    assert list(answer.json()["errors"]) == ["run.seed", "rollout.group_size", "evaluation.probes"]


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"preset": PRESET, "config": {}}, "preset"),
        ({"preset": PRESET, "seed": 3}, "seed"),
        ({"preset": "nonesuch"}, "preset"),
        ({"preset": "../../etc/passwd"}, "preset"),
        ({"preset": PRESET, "overrides": {"run.seed": "many"}}, "run.seed"),
        ({"preset": PRESET, "overrides": {"": 1}}, ""),
        ({"preset": PRESET, "overrides": {"run": 1}}, "run"),
        ({"preset": PRESET, "overrides": {"algorithm.type": "magic"}}, "algorithm"),
        ({"preset": PRESET, "tags": ["x" * 61]}, "tags"),
        ({"preset": PRESET, "tags": [str(n) for n in range(21)]}, "tags"),
        ({"preset": PRESET, "name": "x" * 121}, "name"),
        ({"preset": PRESET, "project": "no such slug"}, "project"),
        ({"config": "a string"}, "config"),
        ({"config": {}}, "team"),
        ({"config": {"team": 1, "policies": {}}}, "team"),
    ],
)
def test_every_fault_is_told_at_its_field(call: Call, project: Any, body: dict[str, Any], field: str) -> None:
    answer = call("runs/", body)
    assert answer.status_code == 400, answer.content
    told = answer.json()["errors"]
    assert any(path == field or path.startswith(f"{field}.") for path in told), told
    assert all(isinstance(text, str) and text for text in told.values())
    assert not Run.objects.exists()


def test_another_content_type_is_refused(project: Any, user: Any) -> None:
    client = Client(headers={"Authorization": f"Bearer {token_create(user, 't', ['admin'])[1]}"})
    for kind in (
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "nonsense",
    ):
        assert client.post("/api/v1/runs/", b"preset=x", content_type=kind).status_code in (400, 415)


def test_an_unknown_project_is_not_there(call: Call, project: Any) -> None:
    assert call("runs/", {"preset": PRESET, "project": "elsewhere"}).status_code == 404


@pytest.mark.parametrize("path", ["stop", "pause"])
def test_a_stop_needs_no_body_and_refuses_an_unreadable_one(call: Call, run: Run, path: str) -> None:
    Run.objects.update(state="running")
    for body in (b"not json", b'{"now": "perhaps"}'):
        assert call(f"runs/{run.pk}/{path}/", body).status_code == 400
        assert Run.objects.get().state == "running"
    answer = call(f"runs/{run.pk}/{path}/", b"")
    assert (answer.status_code, answer.json()["stop_requested"]) == (200, path)
    assert answer.json()["end_requested_at"] is None


@pytest.mark.parametrize("path", ["stop", "pause"])
def test_an_act_with_now_does_not_wait_for_the_iteration(call: Call, run: Run, path: str) -> None:
    Run.objects.update(state="running")
    answer = call(f"runs/{run.pk}/{path}/", {"now": True})
    assert (answer.status_code, answer.json()["state"]) == (200, "stopping")
    assert answer.json()["end_requested_at"] is not None
    Run.objects.update(state="queued", end_requested_at=None)
    assert call(f"runs/{run.pk}/{path}/", {"now": True}).json()["state"] in ("stopped", "paused")


@pytest.mark.parametrize(
    "path",
    [
        "runs/%00/", "runs/%00/stop/", "runs/../", "runs/" + "x" * 2000 + "/", "runs/%F0%9F%92%A9/", "episodes/0/",
        "episodes/" + "9" * 30 + "/", "episodes/" + "9" * 5000 + "/", "episodes/-1/", "episodes/a/", "runs/'--/",
        f"runs/{quote('<script>alert(1)</script>', safe='')}/", "runs/?cursor=%FF",
    ],
)  # fmt: skip
def test_odd_addresses_are_not_there(call: Call, run: Run, path: str) -> None:
    answer = call(f"/api/v1/{path}")
    assert answer.status_code in (400, 404, 405)
    if answer["Content-Type"] == "application/json":
        assert json.loads(answer.content)["detail"]

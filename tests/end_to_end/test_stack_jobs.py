"""What Celery does on the real stack: short jobs start as Ray jobs and play what the run itself played; webhooks are sent."""

import hashlib
import hmac
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.end_to_end.running_stack import RunningStack
from tests.webapp.notifications.receiving import receiving
from tests.workers.running import TINY_GRID, little_model

pytestmark = [pytest.mark.stack, pytest.mark.timeout(1800), pytest.mark.extended]


@pytest.fixture
def stack(shared_stack: RunningStack) -> RunningStack:
    return shared_stack


@pytest.fixture
def client(stack: RunningStack) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {stack.token}"}
    with httpx.Client(base_url=stack.url, headers=headers, timeout=60, trust_env=False) as client:
        yield client


def made(client: httpx.Client, path: str, **body: Any) -> dict[str, Any]:
    answer = client.post(path, json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def ended(client: httpx.Client, path: str, within: float = 900.0) -> dict[str, Any]:
    deadline = time.monotonic() + within
    while (found := client.get(path).json())["state"] not in ("finished", "failed", "stopped", "cancelled"):
        talk = (found.get("moment") or {}).get("asked")
        if talk:
            client.post(f"{path}say/", json={"turn": talk["turn"], "text": "north"})
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    assert found["state"] == "finished", found.get("message", found)
    return dict(found)


def test_a_checkpoint_is_evaluated_again_and_talked_to(client: httpx.Client, stack: RunningStack) -> None:
    little_model(stack.home / "models" / "little")
    small = {
        "policies.planner.model": "little", "policies.executor.model": "little", "run.iterations": 2,
        "rollout.tasks": 6, "rollout.group_size": 4, "evaluation.every": 1, "evaluation.episodes": 8,
        "evaluation.probes": 2, "checkpoint.every": 1, "resources.environments_per_worker": 8, **TINY_GRID,
    }  # fmt: skip
    checked = made(client, "/api/v1/jobs/", kind="check", preset="plan_path_duo", overrides=small)
    checks = ended(client, f"/api/v1/jobs/{checked['id']}/")["result"]
    assert {check["state"] for check in checks["checks"]} == {"passed"} and not checks["failed"], checks
    gpu = {"policies.planner.devices.rollout_gpus": 1.0}
    body = {"preset": "plan_path_duo", "overrides": small | gpu}
    refused = client.post("/api/v1/runs/", json=body)
    assert refused.status_code == 400 and "has no CUDA device" in refused.text
    refused_by_check = made(client, "/api/v1/jobs/", kind="check", **body)
    result = ended(client, f"/api/v1/jobs/{refused_by_check['id']}/")["result"]
    assert [check["name"] for check in result["checks"] if check["state"] == "failed"] == ["GPUs"]
    dry = made(client, "/api/v1/jobs/", kind="dry_run", preset="plan_path_duo", overrides=small)
    played = ended(client, dry["url"].replace("/jobs/", "/api/v1/jobs/"))
    assert len(played["episodes"]) == 1 and len(played["episodes"][0]["turns"][0]["candidates"]) == 4
    run = made(client, "/api/v1/runs/", preset="plan_path_duo", overrides=small)["id"]
    ended(client, f"/api/v1/runs/{run}/")
    series = client.get(f"/api/v1/runs/{run}/series/?keys=eval/return,eval/success").json()["series"]
    again = made(client, "/api/v1/jobs/", kind="evaluate", run=run, parameters={"episodes": 8})
    result = ended(client, f"/api/v1/jobs/{again['id']}/")["result"]
    assert result["return"] == pytest.approx(series["eval/return"]["values"][-1])
    assert result["success"] == pytest.approx(series["eval/success"]["values"][-1])
    talk = made(client, "/api/v1/jobs/", kind="talk", run=run, parameters={"roles": ["planner"]})
    (episode,) = ended(client, f"/api/v1/jobs/{talk['id']}/")["episodes"]
    said = {turn["candidates"][0]["text"] for turn in episode["turns"] if turn["role"] == "planner"}
    assert said == {"north"}
    log = (stack.home / "log" / "ray.log").read_text()
    refusals = [line for line in log.splitlines() if "is not forked" in line]
    assert not refusals, "short jobs are forked, and the node starts no other program"


def test_webhooks_are_sent_by_worker_and_again_when_asked(client: httpx.Client, stack: RunningStack) -> None:
    hooks = "/api/v1/projects/default/webhooks/"
    with receiving() as receiver:
        receiver.answers = [500]
        hook = made(client, hooks, name="here", address=receiver.url, events=["run.finished"])
        path = f"{hooks}{hook['id']}/"

        def told() -> dict[str, Any]:
            (delivery,) = client.get(f"{path}deliveries/").json()["results"]
            return dict(delivery)

        assert client.post(f"{path}ping/").status_code == 200
        stack.until(lambda: told()["tries"])  # on a busy machine there may be a second already, by itself
        assert told()["tries"][0]["code"] == 500
        assert client.post(f"{path}deliveries/{told()['id']}/again/").status_code == 200
        stack.until(lambda: told()["state"] == "delivered")
        (first, _), (again, body) = receiver.got[:2]
        assert first["x-troupe-delivery"] == again["x-troupe-delivery"] == told()["key"]
        signed = again["x-troupe-timestamp"].encode() + b"." + body
        wanted = hmac.new(hook["secret"].encode(), signed, hashlib.sha256).hexdigest()
        assert (again["x-troupe-event"], again["x-troupe-signature"]) == ("ping", f"sha256={wanted}")

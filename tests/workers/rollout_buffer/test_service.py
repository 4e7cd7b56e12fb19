"""The service as a separate process, over HTTP: slime's paths and shapes."""

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.workers.rollout_buffer.serving import Service
from tests.workers.rollout_buffer.test_rules import record


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    running = Service(tmp_path_factory.mktemp("home"), "--group-size", "2", "--max-records", "4").start()
    yield running
    running.stop()


@pytest.fixture
def client(service: Service, request: pytest.FixtureRequest) -> Iterator[httpx.Client]:
    """Each test has its own channel."""
    with service.client() as whole:
        whole.base_url = httpx.URL(f"{service.url}/channels/{request.function.__name__}")
        yield whole


def write(client: httpx.Client, *uids: str, instance: str = "a") -> None:
    for place, uid in enumerate(uids):
        client.post("/buffer/write", json=record(instance, float(place), uid)).raise_for_status()


def test_writing_answers_with_the_item_in_an_envelope(client: httpx.Client) -> None:
    answer = client.post("/buffer/write", json=record("a", "1.5", "u") | {"extra_info": {"label": 4}}).json()
    assert answer["success"] is True and answer["data"]["meta_info"] == "write to buffer"
    (item,) = answer["data"]["data"]
    assert (item["uid"], item["reward"], item["extra_info"]) == ("u", 1.5, {"label": 4})


def test_rollout_data_are_delivered_once_with_slimes_statistics(client: httpx.Client) -> None:
    empty = client.post("/get_rollout_data", json={})
    assert (
        empty.status_code == 200 and empty.json()["success"] is False and empty.json()["data"]["data"] == []
    )
    write(client, "1", "2")
    answer = client.post("/get_rollout_data", json={}).json()
    assert answer["success"] is True
    assert [item["uid"] for item in answer["data"]["data"]] == ["1", "2"]
    meta = answer["data"]["meta_info"]
    assert {name: meta[name] for name in ("total_samples", "num_groups", "avg_group_size", "avg_reward")} == {
        "total_samples": 2, "num_groups": 1, "avg_group_size": 2.0, "avg_reward": 0.5
    }  # fmt: skip
    assert meta["finished_groups"] == ["a"]
    assert client.post("/get_rollout_data").json()["data"]["data"] == []


def test_reading_peeking_and_stats(client: httpx.Client) -> None:
    write(client, "1", "2")
    write(client, "3", "4", instance="b")
    assert [item["uid"] for item in client.get("/buffer/peek").json()["data"]["data"]] == ["1", "2"]
    for path in ("/buffer/stats", "/stats"):
        stats = client.get(path).json()["data"]
        assert (stats["current_size"], stats["max_size"]) == (4, 4)
        assert (stats["total_written"], stats["total_read"]) == (4, 0)
    one = client.post("/buffer/read", json={"batch_size": "2", "timeout": "0.1"}).json()
    assert [item["instance_id"] for item in one["data"]["data"]] == ["a", "a"]
    assert client.get("/stats").json()["data"]["total_read"] == 2


def test_a_full_buffer_reports_when_to_retry(client: httpx.Client) -> None:
    write(client, "1", "2")
    write(client, "3", "4", instance="b")
    refused = client.post("/buffer/write", json=record("c", 1.0))
    assert refused.status_code == 429 and int(refused.headers["retry-after"]) > 0
    assert refused.json()["success"] is False
    client.post("/get_rollout_data", json={})
    assert client.post("/buffer/write", json=record("c", 1.0)).status_code == 200


@pytest.mark.parametrize(
    ("path", "body", "said"),
    [
        ("/buffer/write", {"uid": "1"}, "has no instance_id"),
        ("/buffer/write", [], "one JSON object"),
        ("/start_rollout", {"task_type": "unheard_of"}, "no generator has TASK_TYPE"),
        ("/get_rollout_data", {"batch_size": "few"}, "not a whole number"),
    ],
)
def test_invalid_requests_are_reported(client: httpx.Client, path: str, body: Any, said: str) -> None:
    answer = client.post(path, json=body)
    assert answer.status_code == 400 and said in answer.json()["message"]


def test_requests_without_the_token_are_refused(service: Service) -> None:
    for path in ("/", "/stats", "/channels/x/stats"):
        assert httpx.get(service.url + path, timeout=60, trust_env=False).status_code == 401
    basic = httpx.get(service.url + "/stats", auth=("buffer", service.token), timeout=60, trust_env=False)
    assert basic.status_code == 200, "as an address with a password in it"
    assert stat.S_IMODE((service.home / "rollout_buffer.json").stat().st_mode) == 0o600
    assert stat.S_IMODE((service.home / "rollout_buffer" / "records.sqlite").stat().st_mode) == 0o600


@pytest.mark.extended
def test_a_used_port_is_skipped_and_progress_is_printed(service: Service, tmp_path: Path) -> None:
    second = Service(tmp_path).start(service.port)
    assert second.port > service.port
    with second.client() as client:
        write(client, "1")
        assert client.get("/").json()["message"]
    said = second.stop()
    assert f"rollout buffer on {second.url}" in said and "its records are on disk" in said

"""A sweep over seeds on the real stack: one process trains them, and each is a run of its own."""

import os
import signal
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

from tests.end_to_end.running_stack import RunningStack, title
from tests.end_to_end.test_run_faults import Client

pytestmark = [pytest.mark.stack, pytest.mark.timeout(2400), pytest.mark.extended]
SMALL = {"rollout.environments": 8, "evaluation.every": 0, "checkpoint.every": 5}
LONG = 500
KEYS = "train/return,policy/agents/value_loss"
ENDED = ("finished", "failed", "stopped")


@pytest.fixture
def client(shared_stack: RunningStack) -> Iterator[Client]:
    client = Client(shared_stack)
    yield client
    client.http.close()


def made(client: Client, path: str, **body: Any) -> Any:
    answer = client.http.post(client.stack.url + path, json=body)
    assert answer.status_code in (200, 201), answer.text
    return answer.json()


def swept(client: Client, iterations: int) -> list[str]:
    """The runs of a sweep over three seeds, for which the cluster has room in one process only."""
    client.stack.until(lambda: client.get("/api/v1/cluster/")["capacity"] is not None)
    most = 0.6 * client.get("/api/v1/cluster/")["capacity"]["cpus"]
    overrides = SMALL | {"resources.cpus": most, "run.iterations": iterations}
    sweep = made(client, "/api/v1/sweeps/", preset="spread_mappo", overrides=overrides, seeds=[0, 1, 2])
    return [row["id"] for row in sweep["results"]]


def drivers(stack: RunningStack, run: str) -> list[psutil.Process]:
    """The Python processes that train a run."""
    titles = {process: title(process) for process in stack.tree()}
    return [
        one for one, text in titles.items() if "workers.run" in text and run in text and "sh -c" not in text
    ]


def curves(client: Client, run: str) -> dict[str, list[float]]:
    series = client.get(f"/api/v1/runs/{run}/series/?keys={KEYS}&points=10000")["series"]
    return {key: values["values"] for key, values in series.items()}


def test_seeds_of_a_sweep_share_a_process(shared_stack: RunningStack, client: Client) -> None:
    runs = swept(client, LONG)
    client.until(runs[1], lambda found: found["iteration"] >= 1)
    made(client, f"/api/v1/runs/{runs[1]}/stop/")
    (driver,) = drivers(shared_stack, runs[0])
    assert [drivers(shared_stack, run) for run in runs[1:]] == [[driver], [driver]]
    ended = [client.until(run, lambda found: found["state"] in ENDED) for run in runs]
    assert [found["state"] for found in ended] == ["finished", "stopped", "finished"]
    assert ended[1]["iteration"] < LONG == ended[2]["iteration"]
    (kept, *_) = client.get(f"/api/v1/runs/{runs[1]}/checkpoints/")["results"]
    assert kept["iteration"] == ended[1]["iteration"]
    alone = made(
        client, "/api/v1/runs/", preset="spread_mappo", overrides=SMALL | {"run.iterations": LONG, "run.seed": 2},
    )["id"]  # fmt: skip
    client.until(alone, lambda found: found["iteration"] >= 6)
    made(client, f"/api/v1/runs/{alone}/stop/")
    client.until(alone, lambda found: found["state"] in ENDED)
    together, own = curves(client, runs[2]), curves(client, alone)
    assert together.keys() == own.keys() and len(own) == 2
    for key, values in own.items():
        assert together[key][:4] == pytest.approx(values[:4], rel=2e-3, abs=1e-4), key
        assert curves(client, runs[0])[key][:4] != pytest.approx(values[:4], rel=2e-3), "another seed"


def test_members_of_a_killed_process_continue_alone(shared_stack: RunningStack, client: Client) -> None:
    runs = swept(client, 150)
    client.until(runs[0], lambda found: found["iteration"] >= 6)
    (driver,) = drivers(shared_stack, runs[0])
    os.kill(driver.pid, signal.SIGKILL)
    for run in runs:
        ended = client.until(run, lambda found: found["state"] in ENDED)
        assert ended["state"] == "finished", ended
        assert [attempt["number"] for attempt in ended["attempts"]] == [1, 2]
        assert "with 2 other seeds ended without a report" in ended["attempts"][0]["reason"]
        assert ended["attempts"][1]["resumed_from"].startswith("checkpoints/iteration-")

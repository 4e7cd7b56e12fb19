"""A real run on the real stack while its parts are killed: it finishes, and everything it told is there, once."""

import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from tests.end_to_end.running_stack import RunningStack, title
from training_core.llm.environments.plan_path.game import PlanPath
from troupe_client.reporting.sync import undelivered

pytestmark = [pytest.mark.stack, pytest.mark.timeout(2400), pytest.mark.extended]
PATIENCE = 900.0
"""Seconds; nothing is asserted on them."""
ITERATIONS = 30
PER_ITERATION = 2


@pytest.fixture
def stack(shared_stack: RunningStack) -> RunningStack:
    return shared_stack


@pytest.fixture
def client(stack: RunningStack) -> Iterator["Client"]:
    client = Client(stack)
    yield client
    client.http.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model that speaks the environment's words: nothing to wait for."""
    from training_core.llm.base_models.tiny import TinyRecipe
    from training_core.llm.base_models.warm_start import new_model, word_tokenizer
    from training_core.llm.environments.registry import warm_start_of

    folder = tmp_path_factory.mktemp("model")
    tokenizer = word_tokenizer(warm_start_of("plan_path").vocabulary(PlanPath()))
    new_model(TinyRecipe(hidden_size=16, layers=1, heads=2), tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


class Client:
    """The API, patient with a server that is being restarted."""

    def __init__(self, stack: RunningStack) -> None:
        self.stack = stack
        self.http = httpx.Client(
            headers={"Authorization": f"Bearer {stack.token}"}, timeout=60, trust_env=False
        )

    def get(self, path: str) -> Any:
        answer = self.http.get(self.stack.url + path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def launch(self, model: Path, **overrides: Any) -> str:
        """A short run that lasts long enough to be hurt."""
        small = {
            "policies.planner.model": str(model), "policies.executor.model": str(model), "run.iterations": ITERATIONS,
            "rollout.tasks": 8, "rollout.group_size": 4, "evaluation.every": 0, "checkpoint.every": 5,
            "reporting.episodes_per_iteration": PER_ITERATION,
        }  # fmt: skip
        body = {"preset": "plan_path_duo", "overrides": small | overrides}
        answer = self.http.post(f"{self.stack.url}/api/v1/runs/", json=body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    def state(self, run: str) -> dict[str, Any]:
        try:
            return dict(self.get(f"/api/v1/runs/{run}/"))
        except (httpx.HTTPError, AssertionError):
            return {"state": "unknown", "reason": "", "iteration": -1, "attempts": []}

    def until(self, run: str, happened: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + PATIENCE
        while not happened(found := self.state(run)):
            assert time.monotonic() < deadline, found
            time.sleep(0.2)
        return found

    def until_still(self, run: str) -> None:
        """Return when no iteration has been completed for 5 s."""
        seen = [-1]
        while len(set(seen[-10:])) > 1 or len(seen) < 10:
            seen.append(self.state(run)["iteration"])
            time.sleep(0.5)


def check_whole(client: Client, run: str, iterations: int = ITERATIONS) -> None:
    """Every point and every reported episode is there, once, and nothing waits on disk."""
    points = client.get(f"/api/v1/runs/{run}/series/?keys=train/return&points=10000")["series"][
        "train/return"
    ]
    assert points["steps"] == list(range(1, iterations + 1))
    episodes = client.get(f"/api/v1/runs/{run}/episodes/?kind=train&limit=500")["results"]
    assert len(episodes) == len({row["name"] for row in episodes}) == iterations * PER_ITERATION
    client.stack.until(lambda: undelivered(client.stack.home / "runs" / run) == 0)


def test_killed_parts_cost_a_run_nothing(stack: RunningStack, client: Client, model: Path) -> None:
    """One part after the other is killed, each after progress since the last; the run remains in its first attempt."""
    iterations, last = 60, 2
    run = client.launch(model, **{"run.iterations": iterations, "rollout.tasks": 32})
    for part in ("web", "redis", "worker", "postgres"):
        before = client.until(run, lambda found, last=last: found["iteration"] > last)
        assert before["state"] == "running", f"the run ended before {part} was killed"
        last = before["iteration"]
        victim = stack.part(part)
        assert victim is not None
        os.kill(victim.pid, signal.SIGKILL)
        stack.until(stack.well)
    ended = client.until(run, lambda found: found["state"] in ("finished", "failed", "stopped"))
    assert ended["state"] == "finished", ended
    assert len(ended["attempts"]) == 1
    check_whole(client, run, iterations)


def test_the_workers_of_a_run_are_forked(stack: RunningStack, client: Client, model: Path) -> None:
    run = client.launch(model, **{"run.iterations": 500})
    client.until(run, lambda found: found["iteration"] >= 1)
    server = next(process for process in stack.tree() if "workers.prefork.server" in title(process))
    forked = [title(process) for process in server.children()]
    assert sum(name.startswith("ray::PolicyWorker") for name in forked) >= 2, forked
    assert client.http.post(f"{stack.url}/api/v1/runs/{run}/stop/").status_code == 200
    client.until(run, lambda found: found["state"] == "stopped")


def test_training_goes_on_while_the_server_is_away(stack: RunningStack, client: Client, model: Path) -> None:
    """The web server hangs (stopped, so that nothing restarts it) until many batches wait on disk, then comes back."""
    run = client.launch(model)
    client.until(run, lambda found: found["iteration"] >= 2)
    server = stack.part("web")
    assert server is not None
    folder = stack.home / "runs" / run
    family = [server, *server.children(recursive=True)]
    for process in family:
        process.suspend()
    try:
        deadline = time.monotonic() + PATIENCE
        # Several batches, and soon: a server that hangs for a minute is started again.
        while undelivered(folder) < 30:
            assert time.monotonic() < deadline, "training stood still without the server"
            time.sleep(0.1)
    finally:
        for process in family:
            with suppress(psutil.NoSuchProcess):
                process.resume()
    ended = client.until(run, lambda found: found["state"] in ("finished", "failed", "stopped"))
    assert ended["state"] == "finished", ended
    check_whole(client, run)


def test_a_ray_head_killed_makes_a_new_attempt_from_the_last_checkpoint(
    stack: RunningStack, client: Client, model: Path
) -> None:
    run = client.launch(model, **{"rollout.tasks": 32, "run.iterations": 15})
    client.until(run, lambda found: found["iteration"] >= 6)
    head = stack.part("ray")
    assert head is not None
    os.kill(head.pid, signal.SIGKILL)
    ended = client.until(run, lambda found: found["state"] in ("finished", "failed", "stopped"))
    assert ended["state"] == "finished", ended
    assert [attempt["number"] for attempt in ended["attempts"]] == [1, 2]
    assert ended["attempts"][1]["resumed_from"].startswith("checkpoints/iteration-")
    points = client.get(f"/api/v1/runs/{run}/series/?keys=train/return&points=10000")["series"][
        "train/return"
    ]
    assert sorted(set(points["steps"])) == list(range(1, 16))
    assert set(points["attempts"]) == {1, 2}


def test_a_run_continues_after_the_whole_stack_was_killed(model: Path) -> None:
    """`up` is killed, and with it all of its children; the next one starts the run again from its last checkpoint."""
    stack = RunningStack()
    try:
        stack.start()
        client = Client(stack)
        run = client.launch(model, **{"rollout.tasks": 32, "run.iterations": 15})
        client.until(run, lambda found: found["iteration"] >= 6)
        assert stack.process
        os.kill(stack.process.pid, signal.SIGKILL)
        stack.process.wait(PATIENCE)
        stack.start()
        ended = client.until(run, lambda found: found["state"] in ("finished", "failed", "stopped"))
        assert ended["state"] == "finished", ended
        assert ended["attempts"][0]["reason"] == "Ray was restarted and ended the run."
        points = client.get(f"/api/v1/runs/{run}/series/?keys=train/return&points=10000")["series"]
        assert sorted(set(points["train/return"]["steps"])) == list(range(1, 16))
        client.stack.until(lambda: undelivered(stack.home / "runs" / run) == 0)
        client.http.close()
    finally:
        stack.remove()


def frozen_environments(stack: RunningStack) -> list[psutil.Process]:
    """The processes that step environments, standing still: the iteration under way cannot end."""
    found = []
    for process in stack.tree():
        with suppress(psutil.Error):
            if "ray::EnvWorker" in " ".join(process.cmdline()):
                process.suspend()
                found.append(process)
    return found


def test_a_pause_during_an_endless_iteration_loses_nothing(
    stack: RunningStack, client: Client, model: Path
) -> None:
    run = client.launch(model, **{"checkpoint.every": 0})
    client.until(run, lambda found: found["iteration"] >= 3)
    frozen = frozen_environments(stack)
    assert frozen
    try:
        client.until_still(run)
        paused = client.http.post(f"{stack.url}/api/v1/runs/{run}/pause/").json()
        assert (paused["state"], paused["stop_requested"]) == ("stopping", "pause")
        assert paused["reason"].startswith("Pausing: completing iteration ")
        waiting = client.until(run, lambda found: "saved up to iteration" in found["reason"])
        (kept,) = client.get(f"/api/v1/runs/{run}/checkpoints/")["results"]
        assert (waiting["state"], kept["iteration"]) == ("stopping", waiting["iteration"])
        assert [attempt["state"] for attempt in waiting["attempts"]] == ["live"], (
            "nobody ends it from outside"
        )
        told = client.http.post(f"{stack.url}/api/v1/runs/{run}/pause/", json={"now": True}).json()
        assert told["end_requested_at"] and told["reason"].startswith("Ending now")
        ended = client.until(run, lambda found: found["state"] == "paused")
        assert ended["reason"] == "", "its driver left in order"
    finally:
        for process in frozen:
            with suppress(psutil.NoSuchProcess):
                process.resume()
    resumed = client.http.post(f"{stack.url}/api/v1/runs/{run}/resume/").json()
    assert resumed["state"] in ("queued", "starting")
    ended = client.until(run, lambda found: found["state"] in ("finished", "failed", "stopped"))
    assert ended["state"] == "finished", ended
    assert ended["attempts"][1]["resumed_from"] == kept["path"]
    points = client.get(f"/api/v1/runs/{run}/series/?keys=train/return&points=10000")["series"][
        "train/return"
    ]
    assert points["steps"] == list(range(1, ITERATIONS + 1)), "no completed iteration was played twice"

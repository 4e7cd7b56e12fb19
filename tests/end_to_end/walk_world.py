"""What the documentation's pages presume: finished runs with checkpoints, transcripts and a finding, models, data, people."""

import json
import re
import subprocess
import sys
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import httpx

from tests.architecture.source import ROOT
from tests.end_to_end.running_stack import RunningStack
from tests.end_to_end.walking import reader_environment, until
from tests.workers.running import little_model

SMALL = {
    "run.iterations": 4, "rollout.tasks": 4, "rollout.group_size": 4, "evaluation.every": 1, "evaluation.episodes": 4,
    "evaluation.probes": 2, "checkpoint.every": 1, "checkpoint.keep": 10, "reporting.episodes_per_iteration": 4,
    "resources.environments_per_worker": 4, "policies.planner.model": "my-llama", "policies.executor.model": "my-llama",
    "health.kl_blow_up.above": 1e-7, "health.kl_blow_up.window": 1,
    # One optimiser step per iteration: the KL is 0 in the first, so the finding begins after the first checkpoint.
    "policies.planner.learner.minibatches": 1, "policies.executor.learner.minibatches": 1,
}  # fmt: skip
SMALL_NETWORKS = {
    "run.iterations": 4, "rollout.environments": 4, "rollout.steps": 25, "evaluation.every": 2,
    "evaluation.episodes": 4, "checkpoint.every": 2,
}  # fmt: skip
PROJECT = "default"
CHANGING = ("starting", "running", "stopping")


@dataclass
class World:
    """A stack with the objects that pages name."""

    stack: RunningStack
    work: Path
    """Folder of the checkout from which the runs were launched."""
    runs: list[str] = field(default_factory=list)
    """Ids of runs of plan_path_duo: finished, stopped, and one that waits in the queue."""
    networks: str = ""
    """Id of a finished run of spread_mappo."""

    @cached_property
    def client(self) -> httpx.Client:
        """Requests as the owner."""
        headers = {"Authorization": f"Bearer {self.stack.token}"}
        return httpx.Client(base_url=self.stack.url, headers=headers, timeout=60, trust_env=False)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    def call(self, path: str, body: Any = None) -> Any:
        """JSON of `GET /api/v1/<path>`, or of POST with a body."""
        address = f"/api/v1/{path}"
        answer = self.client.get(address) if body is None else self.client.post(address, json=body)
        assert answer.is_success, f"{address}: {answer.text[:2000]}"
        return answer.json() if answer.content else None

    def environment(self, folder: Path) -> dict[str, str]:
        """Variables of a reader in a folder."""
        return reader_environment(self.stack.home, self.stack.url, self.stack.token, folder)

    def type(self, command: str) -> str:
        """Run a command in the checkout; returns its output."""
        done = subprocess.run(
            ["bash", "-ec", command], cwd=self.work, env=self.environment(self.work), capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, f"$ {command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def launch(self, preset: str, fields: dict[str, Any], *words: str) -> str:
        """Launch a run in the project; returns its id."""
        overrides = " ".join(f"{name}={value}" for name, value in fields.items())
        text = f"troupe launch {preset} {overrides} --project {PROJECT} --json {' '.join(words)}"
        return str(json.loads(self.type(text))["id"])

    def settle(self, *states: str) -> None:
        """Wait until no run is in these states."""
        until(lambda: not self.in_states(set(states)), f"runs stay in {states}")

    def settle_newest(self, command: str) -> None:
        """Wait before a command that stops, pauses or resumes a run until the newest run is not on its way to another state."""
        if re.search(r"\b(stop|pause|resume)\b", command):
            path = f"runs/{self.newest()}/"
            until(lambda: self.call(path)["state"] not in ("queued", "starting", "stopping"), path)

    def newest(self) -> str:
        """The id of the run that was launched last."""
        return str(self.call("runs/?limit=1")["results"][0]["id"])

    def in_states(self, states: set[str]) -> list[str]:
        """Ids of runs in these states."""
        listed = self.call("runs/?limit=200")["results"]
        return [run["id"] for run in listed if run["state"] in states]

    def queue(self) -> str:
        """Launch a run that waits because of the quota."""
        return self.launch("plan_path_duo", SMALL | {"run.seed": 2}, "--tag baseline")

    def begin(self, *, training: bool) -> None:
        """Restore what the page before has changed; with `training` launches train."""
        waiting = self.call(f"runs/{self.runs[2]}/")["state"] == "queued"
        if training:
            self.stop_waiting(all_of_them=True)
            self.quota(None)
        elif not waiting:
            self.runs[2] = self.queue()

    def quota(self, runs: int | None) -> None:
        """Let so many runs of each project train at once; the others wait."""
        for project in self.call("projects/")["results"]:
            self.type(f"troupe project quota {project['slug']} runs={'none' if runs is None else runs}")

    def stop_waiting(self, *, all_of_them: bool = False) -> None:
        """Stop what a page has launched, so that it never trains."""
        waiting = [run for run in self.in_states({"queued", *CHANGING}) if all_of_them or run != self.runs[2]]
        if waiting:
            self.call("bulk/", {"runs": waiting, "act": "stop", "value": ""})
        for job in self.call("jobs/")["results"]:
            if job["state"] in ("queued", "running"):
                self.client.post(f"/api/v1/jobs/{job['id']}/cancel/", json={})


def make_world(stack: RunningStack, work: Path) -> World:
    """Fill a fresh stack."""
    world = World(stack, work)
    models, data = stack.home / "models", stack.home / "data"
    little_model(models / "my-llama")
    data.mkdir(exist_ok=True)
    little_model(work / "models" / "other-llama")
    (data / "problems.jsonl").write_text('{"prompt": "2 + 2?", "label": "4"}\n')
    _checkout(world)
    manage = f"{sys.executable} {ROOT / 'manage.py'} login_link --create"
    for name in ("eve", "ada"):
        world.type(f"{manage} {name}")
    world.type('troupe project create "Path finding"')
    (work / "notes.md").write_text("Eight.\n")
    world.type("troupe report create notes.md --title 'Group size'")
    first = world.launch("plan_path_duo", SMALL | {"reporting.tensorboard": "true"}, "--tag baseline")
    second = world.launch("plan_path_duo", SMALL | {"run.seed": 1, "run.iterations": 400}, "--tag baseline")
    world.networks = world.launch("spread_mappo", SMALL_NETWORKS)
    until(lambda: world.call(f"runs/{second}/")["iteration"] >= SMALL["run.iterations"], "no iterations")
    world.call(f"runs/{second}/stop/", {})
    world.settle("queued", *CHANGING)
    world.runs = [first, second]
    states = [world.call(f"runs/{run}/")["state"] for run in [*world.runs, world.networks]]
    assert states == ["finished", "stopped", "finished"], f"{states}\n{world.type(f'troupe logs {first}')}"
    world.quota(0)
    world.runs.append(world.queue())
    until(lambda: bool(world.call(f"runs/{world.runs[0]}/findings/")["results"]), "no finding")
    return world


def _checkout(world: World) -> None:
    """A repository with a commit and a change that is not committed."""
    world.work.mkdir(parents=True, exist_ok=True)
    (world.work / "worlds.py").write_text("boats = 1\n")
    world.type("git init -q . && git add worlds.py && git commit -qm 'Add worlds'")
    (world.work / "worlds.py").write_text("boats = 3\n")

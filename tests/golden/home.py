"""Records home.tar.xz: the data folder and the database of a stack with two finished runs, and what its API answered then.

`python -m tests.golden.home` starts a stack, launches the runs and packs the folder. tests/end_to_end/test_old_home.py opens it. It is
recorded once: a new recording would not show any more that old data can be opened.
"""

import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import httpx

from tests.end_to_end.running_stack import RunningStack
from tests.workers.running import SMALL_NETWORKS, little_model
from webapp.stack.postgres import dump

ARCHIVE = Path(__file__).with_name("home.tar.xz")
DUMP, ANSWERS, MODEL = "database.dump", "answers.json", "little"
LANGUAGE_MODELS = {
    "run.iterations": 4,
    "policies.planner.model": MODEL,
    "policies.executor.model": MODEL,
    "rollout.tasks": 6,
    "rollout.group_size": 4,
    "evaluation.every": 2,
    "evaluation.episodes": 8,
    "checkpoint.every": 2,
    "environment.size": 4,
    "environment.max_turns": 2,
    "environment.moves_per_turn": 2,
}
RUNS = {"plan_path_duo": LANGUAGE_MODELS, "spread_toy": SMALL_NETWORKS}
KEPT = ("models", "runs")
"""Folders of the home that are packed."""


class Api:
    """The REST API of a running stack, as its owner."""

    def __init__(self, stack: RunningStack) -> None:
        self._client = httpx.Client(
            base_url=f"{stack.url}/api/v1",
            headers={"Authorization": f"Bearer {stack.token}"},
            timeout=60,
            trust_env=False,
        )

    def get(self, path: str, **parameters: Any) -> Any:
        """The answer's JSON."""
        return self._client.get(path, params=parameters).raise_for_status().json()

    def post(self, path: str, body: Any) -> Any:
        """The answer's JSON."""
        return self._client.post(path, json=body).raise_for_status().json()


def answers(api: Api, run: str) -> dict[str, Any]:
    """What a run's addresses answer: its points, what was said, its checkpoints."""
    keys = sorted(item["key"] for item in api.get(f"/runs/{run}/series/")["keys"])
    episodes = api.get(f"/runs/{run}/episodes/", limit=500)["results"]
    return {
        "state": api.get(f"/runs/{run}/")["state"],
        "series": {
            key: api.get(f"/runs/{run}/series/", keys=key, points=1000)["series"][key] for key in keys
        },
        "episodes": [
            [item["kind"], item["task"], item["outcome"], item["episode_return"]] for item in episodes
        ],
        "first_episode": api.get(f"/episodes/{episodes[0]['id']}/")["turns"] if episodes else [],
        "checkpoints": [item["path"] for item in api.get(f"/runs/{run}/checkpoints/")["results"]],
    }


def main() -> None:
    """Write the archive."""
    stack = RunningStack()
    little_model(stack.home / "models" / MODEL)
    try:
        stack.start()
        api = Api(stack)
        runs = [
            api.post("/runs/", {"preset": preset, "overrides": changes})["id"]
            for preset, changes in RUNS.items()
        ]
        stack.until(lambda: all(api.get(f"/runs/{run}/")["state"] == "finished" for run in runs), 900.0)
        told = {run: answers(api, run) for run in runs}
        with tempfile.TemporaryDirectory() as folder, tarfile.open(ARCHIVE, "w:xz") as archive:
            (Path(folder) / ANSWERS).write_text(json.dumps(told))
            dump(_binaries(stack), stack.facts["environment"]["DATABASE_URL"], Path(folder) / DUMP)
            for place in (*(stack.home / name for name in KEPT), *Path(folder).iterdir()):
                archive.add(place, place.name)
    finally:
        stack.remove()
    sys.stdout.write(f"{ARCHIVE}: {ARCHIVE.stat().st_size >> 10} KiB\n")


def _binaries(stack: RunningStack) -> Path:
    server = stack.part("postgres")
    assert server is not None
    return Path(server.exe()).parent


if __name__ == "__main__":
    main()

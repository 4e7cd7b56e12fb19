"""Records home.tar.xz: the data folder and the database of a stack with two paused runs, and what its API answered then.

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
LONG = {"run.iterations": 1000, "checkpoint.every": 0}
"""Paused early; the pause writes the only checkpoint."""
LANGUAGE_MODELS = {
    **LONG,
    "policies.planner.model": MODEL,
    "policies.executor.model": MODEL,
    "rollout.tasks": 6,
    "rollout.group_size": 4,
    "evaluation.every": 2,
    "evaluation.episodes": 8,
    "environment.size": 4,
    "environment.max_turns": 2,
    "environment.moves_per_turn": 2,
}
RUNS = {"plan_path_duo": LANGUAGE_MODELS, "spread_toy": SMALL_NETWORKS | LONG}
KEPT = ("models", "runs")
"""Folders of the home that are packed."""


class Api:
    """The REST API of a running stack, as its owner."""

    def __init__(self, stack: RunningStack) -> None:
        self._root = f"{stack.url}/api/v1"
        self._headers = {"Authorization": f"Bearer {stack.token}"}

    def get(self, path: str, **parameters: Any) -> Any:
        """The answer's JSON."""
        return self._answer("GET", path, params=parameters)

    def post(self, path: str, body: Any) -> Any:
        """The answer's JSON."""
        return self._answer("POST", path, json=body)

    def _answer(self, method: str, path: str, **given: Any) -> Any:
        address, headers = f"{self._root}{path}", self._headers
        answer = httpx.request(method, address, headers=headers, timeout=60, trust_env=False, **given)
        return answer.raise_for_status().json()


def answers(api: Api, run: str) -> dict[str, Any]:
    """What a run's addresses answer: its points, what was said, its checkpoints."""
    keys = sorted(item["key"] for item in api.get(f"/runs/{run}/series/")["keys"])
    episodes = api.get(f"/runs/{run}/episodes/", limit=500)["results"]
    return {
        "state": api.get(f"/runs/{run}/")["state"],
        "iteration": api.get(f"/runs/{run}/")["iteration"],
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
        for run in runs:
            stack.until(lambda run=run: api.get(f"/runs/{run}/")["iteration"] >= 2)
            api.post(f"/runs/{run}/pause/", {})
        stack.until(lambda: all(api.get(f"/runs/{run}/")["state"] == "paused" for run in runs))
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

"""Running small runs in tests: an untrained model, few tasks, and the events that came of it."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from training_core.config.files import load_config
from training_core.config.marl import MarlConfig
from training_core.config.run import RunConfig

if TYPE_CHECKING:
    from workers.protocol import Attempt

RAY_VARIABLES = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "token",
    "RAY_health_check_failure_threshold": "20",  # a busy machine is not a dead one
    "RAY_agent_register_timeout_ms": "120000",
    "RAY_timeout_ms_task_wait_for_death_info": "30000",  # a call to a dead worker fails with the reason of its death
    "RAY_GRACEFUL_SHUTDOWN_DRAIN_TIMEOUT_S": "0",  # else SIGTERM waits 30 s
}
"""Variables with which `up` starts its head, without the token."""
TINY_GRID = {"environment.size": 4, "environment.max_turns": 2, "environment.moves_per_turn": 2}


def little_model(folder: Path) -> Path:
    """A small Llama that has seen enough demonstrations to walk a little, as a Hugging Face folder."""
    from training_core.llm.base_models.folder_creation import silent
    from training_core.llm.base_models.tiny import TinyRecipe
    from training_core.llm.base_models.warm_start import make_tiny

    folder.mkdir(parents=True)
    recipe = TinyRecipe(hidden_size=32, layers=2, heads=2, steps=60, batch=64)
    make_tiny(small_config(folder).environment, recipe, folder, silent)
    return folder


SMALL_NETWORKS: dict[str, Any] = {
    "run.iterations": 4,
    "rollout.environments": 4,
    "rollout.steps": 25,
    "evaluation.every": 2,
    "checkpoint.every": 2,
}


def small_networks(preset: str, **overrides: Any) -> MarlConfig:
    """A preset of small networks with four short iterations. Underscores twice stand for dots: run__iterations=2."""
    changes = {key.replace("__", "."): value for key, value in overrides.items()}
    config = load_config(preset, SMALL_NETWORKS | changes)
    assert isinstance(config, MarlConfig)
    return config


def small_config(model: Path, **overrides: Any) -> RunConfig:
    """plan_path_duo with few tasks. Underscores twice stand for dots: run__iterations=2."""
    small: dict[str, Any] = {
        "run.iterations": 2,
        "policies.planner.model": str(model),
        "policies.executor.model": str(model),
        "rollout.tasks": 6,
        "rollout.group_size": 4,
        "resources.environments_per_worker": 6,
        "evaluation.every": 1,
        "evaluation.episodes": 8,
        "evaluation.probes": 2,
        "checkpoint.every": 1,
        "reporting.episodes_per_iteration": 6,
        **TINY_GRID,
    }
    return load_config(
        "plan_path_duo", small | {key.replace("__", "."): value for key, value in overrides.items()}
    )


def over_lines(folder: Path, model: Path, **overrides: Any) -> "Attempt":
    """A run of AReaL's interfaces over lines of data that have a column `prompt`, as the guide's second note wants."""
    from workers.protocol import Attempt

    words = ("north", "south", "west", "east") * 12
    lines = [
        {"prompt": f"goal {word} {number % 4 + 1}", "label": "north"} for number, word in enumerate(words)
    ]
    file = folder.parent / "lines.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)))
    settings = {
        "environment.type": "dataset",
        "environment.path": str(file),
        "team.roles": {"solver": {"policy": "planner", "sampling": {"max_tokens": 3}}},
        "policies": {"planner": {"model": str(model), "learner": {"learning_rate": 0.003}}},
        "workflow.type": "rollout_workflow",
        "rollout.tasks": 8,
        "evaluation.every": 0,
        "checkpoint.every": 0,
        "reporting.episodes_per_iteration": 64,
    }
    return Attempt(load_config("plan_path_duo", settings | overrides), "r", 1, folder, folder.parent)


def events(folder: Path, kind: str, attempt: int = 1) -> list[dict[str, Any]]:
    """Events of one type that an attempt has spooled, in order."""
    lines = [
        json.loads(line)
        for spool in sorted((folder / f"attempt-{attempt}" / "spool").glob("*.jsonl"))
        for line in spool.read_text().splitlines()
    ]
    return [event for event in lines if event["type"] == kind]


@contextmanager
def stopped_when(folder: Path, completed: int) -> Iterator[None]:
    """Send SIGTERM to this process's attempt after a given number of updates."""
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.02):
            with suppress(ValueError):  # a line that is being written
                started = any(event["state"] == "running" for event in events(folder, "status"))
                updated = [
                    event["step"] for event in events(folder, "metrics") if "time/update" in event["values"]
                ]
                if started and len(updated) >= completed:
                    os.kill(os.getpid(), signal.SIGTERM)
                    return

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield
    finally:
        over.set()
        looking.join()


def curve(folder: Path, *attempts: int) -> dict[tuple[str, int], Any]:
    """(metric, step) -> value, without those that measure time or machines."""
    return {
        (name, event["step"]): value
        for attempt in attempts or (1,)
        for event in events(folder, "metrics", attempt)
        for name, value in event["values"].items()
        if not name.startswith(("time/", "system/")) and not name.endswith("_per_second")
    }


def conversation(folder: Path, attempt: int = 1) -> list[Any]:
    """Texts, tokens and rewards of every reported episode."""
    return [
        (
            event["iteration"],
            event["kind"],
            event["task"],
            [
                (turn["role"], turn["executed"], [(c["token_ids"], c["reward"]) for c in turn["candidates"]])
                for turn in event["turns"]
            ],
        )
        for event in events(folder, "episode", attempt)
    ]

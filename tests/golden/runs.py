"""Seeded runs whose numbers are recorded, so that a change of the code's structure shows that it changed nothing else.

`python -m tests.golden.runs [name ...]` records them again: only where numbers are meant to change.
"""

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch

from tests.workers.running import little_model

CURVES = Path(__file__).with_name("curves")
ROOT = Path(__file__).parents[2]
SYNCHRONOUS, ASYNCHRONOUS = "workers.run", "tests.golden.asynchronous_run"
BOTH = ("planner", "executor")
SPEAKER = "algorithm.team_reward_to=speaker"
"""As when the curves were recorded."""
SMALL = ("evaluation.episodes=32", "rollout.tasks=16", SPEAKER)
GATEWAY = (
    "workflow.type=agent",
    "workflow.path=tests.workers.gateway.agents:Upwards",
    "workflow.concurrency=1",  # else the calls of a batch, and so its rounding, depend on timing
)
LITTLE = "policies.planner.model=little"
"""`little_model`, which is made in seconds, instead of the tiny model."""
CLOCKS = ("time/", "system/")
RATES = ("_per_second", "/mfu")
"""Metrics that measure time or the machine."""
DERIVED = ("rollout/*/truncated", "policy/*/weight_change")
"""Metrics that follow from what is recorded: other metrics, digests of weights."""


@dataclass(frozen=True)
class Golden:
    """A run to record."""

    preset: str
    iterations: int
    overrides: tuple[str, ...] = ()
    program: str = SYNCHRONOUS


@dataclass(frozen=True)
class Recording:
    """What a run reported: every metric by step, and digests of its episodes and of its last weights."""

    machine: str
    metrics: dict[str, dict[str, Any]]
    episodes: str
    weights: dict[str, str]


def each(table: str, setting: str) -> tuple[str, ...]:
    """One override for both policies."""
    return tuple(f"{table}.{name}.{setting}" for name in BOTH)


RUNS: dict[str, Golden] = {
    "plan_path_duo-little": Golden(
        "plan_path_duo", 4, (LITTLE, "team.roles.executor.policy=planner", *SMALL)
    ),
    "plan_path_duo-seed-0": Golden("plan_path_duo", 12, ("evaluation.every=6", SPEAKER)),
    "plan_path_duo-seed-1": Golden("plan_path_duo", 12, ("evaluation.every=6", "run.seed=1", SPEAKER)),
    "plan_path_duo-shared": Golden("plan_path_duo", 4, ("team.roles.executor.policy=planner", *SMALL)),
    "plan_path_duo-lora": Golden(
        "plan_path_duo",
        4,
        (*each("policies", "adapter.type=lora"), *each("policies", "adapter.alpha=16"), *SMALL),
    ),
    "plan_path_duo-asynchronous": Golden(
        "plan_path_duo", 4, (*each("policies", "devices.placement=apart"), *SMALL), ASYNCHRONOUS
    ),
    "sudoku": Golden("sudoku", 2, SMALL),
    "sokoban": Golden("sokoban", 2, SMALL),
    "coding": Golden("coding", 2, SMALL),
    "multi_turn_math": Golden("multi_turn_math", 2, SMALL),
    "kuhn_poker": Golden("kuhn_poker", 2, ("evaluation.episodes=24", "rollout.tasks=16")),
    "plan_path_duo-gateway": Golden("plan_path_duo", 2, (*GATEWAY, *SMALL)),
    "spread_mappo": Golden("spread_mappo", 10),
    "spread_ippo": Golden("spread_ippo", 10),
    "recall_ippo_gru": Golden("recall_ippo_gru", 10),
    "recall_mappo_transformer": Golden("recall_mappo_transformer", 10),
}


def machine() -> str:
    """The processor and torch: other ones round differently, also another model of a processor with the same name."""
    lines = Path("/proc/cpuinfo").read_text().splitlines() if Path("/proc/cpuinfo").exists() else []
    facts = dict(
        reversed(
            [(name.strip(), value.strip()) for name, _, value in (line.partition(":") for line in lines)]
        )
    )
    name, family, model = (facts.get(key, "unknown") for key in ("model name", "cpu family", "model"))
    return f"{name}, family {family}, model {model}, {torch.backends.cpu.get_cpu_capability()}, torch {torch.__version__}"


def record(name: str, home: Path) -> Recording:
    """Run it in a process of its own, with one thread."""
    golden, folder, model = RUNS[name], home / "runs" / name, home / "models" / "little"
    if LITTLE in golden.overrides and not model.exists():
        torch.set_num_threads(1)
        little_model(model)
    command = [
        sys.executable,
        "-m",
        golden.program,
        "--preset",
        golden.preset,
        "--local",
        "--folder",
        str(folder),
    ]
    subprocess.run(
        [*command, f"run.iterations={golden.iterations}", *golden.overrides],
        cwd=ROOT,
        env=os.environ | {"TROUPE_HOME": str(home), "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return Recording(machine(), metrics(folder), digest_of_episodes(folder), digests_of_weights(folder))


def events(folder: Path) -> list[dict[str, Any]]:
    """All events of a run, by producer in the order of their numbers."""
    spools = sorted((folder / "attempt-1" / "spool").glob("*.jsonl"))
    return [json.loads(line) for spool in spools for line in spool.read_text().splitlines()]


def metrics(folder: Path) -> dict[str, dict[str, Any]]:
    """Metric -> step -> value."""
    found: dict[str, dict[str, Any]] = {}
    for event in events(folder):
        for name, value in event["values"].items() if event["type"] == "metrics" else ():
            derived = any(fnmatchcase(name, pattern) for pattern in DERIVED)
            if not name.startswith(CLOCKS) and not name.endswith(RATES) and not derived:
                found.setdefault(name, {})[str(event["step"])] = value
    return {name: found[name] for name in sorted(found)}


def digest_of_episodes(folder: Path) -> str:
    """SHA-256 of what was said and earned in the episodes that were reported."""
    told = [
        [event["kind"], event["iteration"], event["task"], event["outcome"], event["rewards"], event["turns"]]
        for event in events(folder)
        if event["type"] == "episode"
    ]
    return hashlib.sha256(json.dumps(sorted(told, key=json.dumps), sort_keys=True).encode()).hexdigest()


def digests_of_weights(folder: Path) -> dict[str, str]:
    """SHA-256 of every file of weights in the last checkpoint."""
    last = max((folder / "checkpoints").glob("iteration-*"))
    files = sorted(last.rglob("*.safetensors"))
    return {str(path.relative_to(last)): hashlib.sha256(path.read_bytes()).hexdigest() for path in files}


def recorded(name: str) -> Recording:
    """The recording in this folder."""
    return Recording(**json.loads((CURVES / f"{name}.json").read_text()))


def main(names: list[str]) -> None:
    """Write recordings."""
    CURVES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as home:
        for name in names or RUNS:
            text = json.dumps(asdict(record(name, Path(home))), indent=0, sort_keys=True)
            (CURVES / f"{name}.json").write_text(f"{text}\n")
            sys.stdout.write(f"{name}\n")


if __name__ == "__main__":
    main(sys.argv[1:])

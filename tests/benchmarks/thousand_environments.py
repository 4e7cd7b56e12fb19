"""1,000 environments at once: `python -m tests.benchmarks.thousand_environments [--workers 1 2 4] [--tasks 1000]`.

One collection of plan_path_duo by the turn tree (K = 8) with the tiny base model, the environments spread over Ray actors
of one core each; all of a role's prompts go to its policy in one call. Prints a line per number of workers: seconds, and
environment steps and episodes a second. The first collection, which loads what is slow to load, is not counted.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from training_core.config.files import load_config
from training_core.config.run import RunConfig

ROOT = Path(__file__).resolve().parents[2]


def main(words: Sequence[str] | None = None) -> None:
    """Collect with each number of workers, and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 2, 4])
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--home", type=Path, default=ROOT / "var" / "benchmarks")
    arguments = parser.parse_args(words)
    os.environ |= {"OMP_NUM_THREADS": "1", "RAY_USAGE_STATS_ENABLED": "0"}
    import ray  # reads those when it is imported

    ray.init(
        num_cpus=max(arguments.workers) + 1,
        include_dashboard=False,
        log_to_driver=False,
        _node_ip_address="127.0.0.1",
    )
    lines = [
        "| environment workers | environments | seconds | environment steps / s | episodes / s | in environments |",
        "|---|---|---|---|---|---|",
    ]
    for workers in arguments.workers:
        lines.append(collected(workers, arguments.tasks, arguments.home))
    ray.shutdown()
    sys.stdout.write("\n".join(lines) + "\n")


def collected(workers: int, tasks: int, home: Path) -> str:
    """One number of workers; the second of two collections."""
    import ray

    from workers.actors.coordinator import RolloutCoordinator
    from workers.actors.members import Spawner
    from workers.actors.policy_workers import PolicyWorker
    from workers.actors.remote_environments import RemotePool
    from workers.protocol import WorkerSpec
    from workers.sizing.placement import place

    config = spread(workers, tasks)
    spawner = Spawner(config, None, f"thousand-{workers}", None)  # type: ignore[arg-type]
    actor_slots = place(config).of("environment")
    members = [spawner.member(seat) for seat in actor_slots]
    proxies = {name: PolicyWorker(WorkerSpec(name, name, config, home)) for name in config.used_policies}
    coordinator = RolloutCoordinator(config, proxies, RemotePool(members), side_by_side=False)
    coordinator.start(None)
    coordinator.collect(1)
    began = time.perf_counter()
    found = coordinator.collect(2)
    seconds = time.perf_counter() - began
    for member in members:
        ray.kill(member.handle)
    steps = sum(sum(item.candidates.values()) for item in found.facts)
    generating = sum(span.end - span.start for span in found.spans if span.phase == "rollout")
    return (
        f"| {workers} | {tasks:,} | {seconds:.1f} | {steps / seconds:,.0f} | {len(found.facts) / seconds:,.0f} "
        f"| {1 - generating / seconds:.0%} |"
    )


def spread(workers: int, tasks: int) -> RunConfig:
    """The demonstration with so many tasks at once."""
    return load_config(
        "plan_path_duo",
        {
            "rollout.tasks": tasks,
            "resources.environment_workers": workers,
            "resources.environments_per_worker": -(-tasks // workers),
            "reporting.episodes_per_iteration": 0,
        },
    )


if __name__ == "__main__":
    main()

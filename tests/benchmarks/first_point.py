"""Seconds from a launch to the first stored point and to the end of a run of one iteration, and to the answers of short jobs.

    python -m tests.benchmarks.first_point [--repeats 5]

Through the REST API of a whole stack: Celery, a Ray job, workers, ingest. The first launch of each preset, which makes the base
model, is not measured.
"""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial

import httpx

from tests.benchmarks.results import Benchmark, Side, run_program
from tests.end_to_end.running_stack import RunningStack

PRESETS, SMALL = (
    {"plan_path_duo": "train/return", "spread_mappo": "train/return"},
    {"spread_toy": "train/return"},
)
"""Preset -> its first metric."""
TEAM = "plan_path_duo"
"""Preset of the short jobs."""
JOBS = {
    "dry_run": "dry run, episode",
    "evaluate": "evaluation of 8 episodes, result",
    "talk": "conversation, first prompt",
}
"""Kind of a short job -> its figure."""
OVERRIDES = {"run.iterations": 1, "evaluation.every": 0, "checkpoint.every": 0}
AT_MOST = 300.0
"""Seconds after which a run counts as failed."""


def benchmark(*, small: bool = False) -> Benchmark:
    """Each preset and each kind of short job is a side."""
    presets, jobs = (SMALL, {}) if small else (PRESETS, JOBS)
    return Benchmark(
        about="time from a launch through the REST API: runs of one iteration without evaluation, and short jobs",
        units={f"{preset}, {what}": "s" for preset in presets for what in ("first point", "finished")}
        | dict.fromkeys(jobs.values(), "s"),
        open_sides=lambda: open_sides(presets, jobs),
        settings={"presets": list(presets), "overrides": OVERRIDES, "preset of jobs": TEAM},
    )


@contextmanager
def open_sides(presets: Mapping[str, str], jobs: Mapping[str, str]) -> Iterator[Mapping[str, Side]]:
    """A stack that has run each preset once. Jobs play the base models of the first run."""
    stack = RunningStack()
    try:
        stack.start()
        header = {"Authorization": f"Bearer {stack.token}"}
        with httpx.Client(base_url=stack.url, headers=header, trust_env=False, timeout=60) as client:
            sides = {preset: partial(launch, client, preset, key) for preset, key in presets.items()}
            for side in sides.values():
                side()
            runs = client.get("/api/v1/runs/").json()["results"]
            run = next((run["id"] for run in runs if run["preset"] == TEAM), "")
            sides |= {kind: partial(ask, client, kind, run) for kind in jobs}
            yield sides
    finally:
        stack.remove()


def launch(client: httpx.Client, preset: str, key: str) -> Mapping[str, float]:
    """Seconds until the first point of a metric can be read, and until the run is finished."""
    began = time.monotonic()
    answer = client.post("/api/v1/runs/", json={"preset": preset, "overrides": OVERRIDES})
    answer.raise_for_status()
    address = f"/api/v1/runs/{answer.json()['id']}/"
    first = None
    while time.monotonic() < began + AT_MOST:
        if first is None and client.get(f"{address}series/", params={"keys": key}).json()["series"].get(key):
            first = time.monotonic() - began
        run = client.get(address).json()
        if run["state"] in ("failed", "stopped"):
            raise ValueError(f"the run of {preset} {run['state']}: {run}")
        if run["state"] == "finished" and first is not None:
            return {f"{preset}, first point": first, f"{preset}, finished": time.monotonic() - began}
        time.sleep(0.05)
    raise ValueError(
        f"the run of {preset} did not finish within {AT_MOST:.0f} s (load {os.getloadavg()[0]:.1f})"
    )


def ask(client: httpx.Client, kind: str, run: str) -> Mapping[str, float]:
    """Seconds until a short job has answered: played an episode, returned its result, or asked for the first move."""
    subject = {"preset": TEAM} if kind == "dry_run" else {"run": run, "checkpoint": "base"}
    parameters = {"evaluate": {"episodes": 8}, "talk": {"roles": ["planner"]}}.get(kind, {})
    began = time.monotonic()
    answer = client.post("/api/v1/jobs/", json={"kind": kind, **subject, "parameters": parameters})
    answer.raise_for_status()
    address = f"/api/v1/jobs/{answer.json()['id']}/"
    while time.monotonic() < began + AT_MOST:
        job = client.get(address).json()
        if job["state"] in ("failed", "cancelled"):
            raise ValueError(f"the job {kind} {job['state']}: {job}")
        if (job.get("moment") or {}).get("asked"):
            took = time.monotonic() - began
            client.post(f"{address}cancel/")
            return {JOBS[kind]: took}
        if job["state"] == "finished":
            return {JOBS[kind]: time.monotonic() - began}
        time.sleep(0.05)
    raise ValueError(f"the job {kind} did not answer within {AT_MOST:.0f} s (load {os.getloadavg()[0]:.1f})")


if __name__ == "__main__":
    run_program("first_point", benchmark, __doc__)

"""Workers of a Ray node: forked, and otherwise as Ray starts them."""

import os
import sys
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.ray


class Described:
    """Describes its process."""

    def process(self) -> dict[str, Any]:
        parent = psutil.Process().parent()
        assert parent is not None
        return {
            "forked": "workers.prefork.server" in parent.cmdline(),
            "threads of its parent": parent.num_threads(),
            "leads its group": os.getpgrp() == os.getpid(),
            "token": os.environ["TROUPE_BUFFER_TOKEN_OF_TESTS"],
            "folder": os.getcwd(),
            "niceness": os.getpriority(os.PRIO_PROCESS, 0),
            "path": [folder for folder in sys.path if "site-packages" in folder],
            "variable": os.environ.get("GIVEN", ""),
            "torch": "torch" in sys.modules,
        }


def described(**variables: str) -> dict[str, Any]:
    import ray

    actor: Any = (
        ray.remote(Described).options(runtime_env={"env_vars": variables} if variables else None).remote()
    )  # type: ignore[attr-defined]
    facts: dict[str, Any] = ray.get(actor.process.remote())
    ray.kill(actor)
    return facts


def test_a_forked_worker_equals_a_ray_worker(ray_cluster: None) -> None:
    """A variable that the interpreter reads at its start makes Ray start the second worker."""
    forked, started = described(), described(PYTHONHASHSEED="1")
    assert forked.pop("forked") and not started.pop("forked")
    assert forked.pop("torch") and not started.pop("torch")
    assert forked.pop("threads of its parent") == 1, "a fork of a process with several threads may deadlock"
    del started["threads of its parent"]
    assert forked == started
    assert forked["leads its group"] and forked["token"] == os.environ["TROUPE_BUFFER_TOKEN_OF_TESTS"]


def test_variables_of_a_runtime_environment_reach_a_forked_worker(ray_cluster: None) -> None:
    facts = described(GIVEN="${TROUPE_BUFFER_TOKEN_OF_TESTS}-x")
    assert facts["forked"] and facts["variable"] == f"{facts['token']}-x"

"""The workers of the tests' cluster: forked, and otherwise as Ray starts them."""

import os
import sys
from typing import Any

import psutil
import pytest

pytestmark = pytest.mark.ray


class Told:
    """Says what it was started with."""

    def facts(self) -> dict[str, Any]:
        return {
            "parent": psutil.Process().parent().cmdline(),  # type: ignore[union-attr]
            "leads its group": os.getpgrp() == os.getpid(),
            "token": os.environ["TROUPE_BUFFER_TOKEN_OF_TESTS"],
            "job": os.environ["RAY_JOB_ID"],
            "torch": "torch" in sys.modules,
        }


def test_workers_are_forked_with_the_environment_and_group_that_ray_gives_them(ray_cluster: None) -> None:
    import ray

    actor: Any = ray.remote(Told).remote()
    facts = ray.get(actor.facts.remote())
    ray.kill(actor)
    assert "tests.workers.forking" in facts.pop("parent")
    assert facts == {
        "leads its group": True,
        "token": os.environ["TROUPE_BUFFER_TOKEN_OF_TESTS"],
        "job": ray.get_runtime_context().get_job_id(),
        "torch": True,
    }

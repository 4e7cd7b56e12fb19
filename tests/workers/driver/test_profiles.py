"""Runs under the resource profiles are placed: by arithmetic, and by a real Ray with pretended devices."""

import os
import subprocess
import sys

import pytest

from tests.training_core.config.test_profiles import team, under
from training_core.config.profiles import PROFILES
from workers.sizing.placement import place


@pytest.mark.parametrize("policies", [1, 2, 3])
@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_run_fits_its_profile(name: str, policies: int) -> None:
    placement, profile = place(under(name, team(policies))), PROFILES[name]
    assert sum(bundle.get("GPU", 0.0) for bundle in placement.bundles) <= profile.gpus + 1e-9
    assert sum(bundle.get("CPU", 0.0) for bundle in placement.bundles) <= profile.cpus
    whole = [bundle["GPU"] for bundle in placement.bundles if bundle.get("GPU", 0) >= 1]
    assert all(amount == int(amount) for amount in whole), "Ray takes fractions below one only"
    used = sum(bundle.get("GPU", 0.0) for bundle in placement.bundles)
    assert used >= profile.gpus * 0.7, "no more than a rest is left idle"


PLACED = """
import sys
import ray
from ray.util.placement_group import placement_group, remove_placement_group
from tests.training_core.config.test_profiles import team, under
from training_core.config.profiles import PROFILES
from workers.sizing.placement import place

name = sys.argv[1]
profile = PROFILES[name]
ray.init(num_cpus=profile.cpus, num_gpus=profile.gpus, include_dashboard=False, log_to_driver=False,
         object_store_memory=80 * 1024 * 1024, _node_ip_address="127.0.0.1")
for policies in (1, 2, 3):
    bundles = place(under(name, team(policies))).bundles
    group = placement_group(bundles, strategy="PACK")
    ray.get(group.ready(), timeout=300)
    print("placed", policies, len(bundles))
    remove_placement_group(group)
short = placement_group([{"GPU": profile.gpus + 1}])
assert not short.wait(1), "a run that needs more waits"
ray.shutdown()
"""


@pytest.mark.ray
@pytest.mark.extended
@pytest.mark.parametrize("name", sorted(PROFILES))
def test_a_ray_cluster_of_that_size_places_the_run(name: str) -> None:
    """In its own process: the devices are pretended, and another Ray may run in this process."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
    told = subprocess.run(
        [sys.executable, "-c", PLACED, name],
        env=environment
        | {
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_agent_register_timeout_ms": "120000",
            "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        },
        capture_output=True,
        text=True,
        timeout=550,
        check=False,
    )
    assert told.returncode == 0, told.stderr[-2000:]
    sizes = [line.split()[1] for line in told.stdout.splitlines() if line.startswith("placed")]
    assert sizes == ["1", "2", "3"]

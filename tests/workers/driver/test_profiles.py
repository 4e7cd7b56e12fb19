"""Runs under the resource profiles fit them, by arithmetic."""

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

"""Resource profiles: a run under one fits its devices, whatever its policies; nothing else of the config changes."""

from typing import Any

import pytest

from training_core.config.files import apply_overrides, load_config, parse_config
from training_core.config.profiles import PROFILES, profile_overrides, profiles_document
from training_core.config.run import RunConfig
from training_core.errors import ConfigError


def team(policies: int) -> RunConfig:
    """plan_path_trio, or roles of the pair, with so many policies."""
    if policies == 1:
        return load_config("plan_path_duo", {"team.roles.executor.policy": "planner"})
    return load_config({2: "plan_path_duo", 3: "plan_path_trio"}[policies])


def under(name: str, config: RunConfig) -> RunConfig:
    return parse_config(apply_overrides(config.model_dump(mode="json"), profile_overrides(name, config)))


@pytest.mark.parametrize(
    ("name", "policies", "wanted"),
    [
        # one policy has both GPUs: one rolls out, one updates
        ("minimal", 1, {"placement": "apart", "rollout_workers": 1, "rollout_gpus": 1.0, "update_gpus": 1.0}),
        ("minimal", 2, {"placement": "colocated", "rollout_workers": 1, "rollout_gpus": 1.0}),
        ("minimal", 3, {"placement": "colocated", "rollout_gpus": 0.5}),
        (
            "recommended",
            2,
            {"placement": "apart", "rollout_workers": 2, "update_workers": 2, "update_gpus": 1.0},
        ),
        ("recommended", 3, {"placement": "apart", "rollout_workers": 1, "update_gpus": 1.0}),
        ("large", 2, {"placement": "apart", "rollout_workers": 8, "update_workers": 8, "update_gpus": 1.0}),
    ],
)
def test_gpus_are_shared_out_between_the_policies(name: str, policies: int, wanted: dict[str, Any]) -> None:
    config = under(name, team(policies))
    for policy in config.used_policies:
        devices = config.policies[policy].devices.model_dump()
        assert {field: devices[field] for field in wanted} == wanted


@pytest.mark.parametrize("name", sorted(PROFILES))
def test_environments_have_room(name: str) -> None:
    config = load_config(
        "plan_path_duo", {"workflow.type": "episodes", "resources.environments_per_worker": 192}
    )
    resources = under(name, config).resources
    assert resources.environment_workers * resources.environments_per_worker >= config.training_slots == 384


def test_nothing_but_devices_and_resources_changes() -> None:
    config = team(2)
    changed = under("recommended", config)
    for section in RunConfig.model_fields:
        if section not in ("policies", "resources"):
            assert getattr(changed, section) == getattr(config, section)
    for policy in config.used_policies:
        one, other = config.policies[policy], changed.policies[policy]
        assert one.model_copy(update={"devices": other.devices}) == other


def test_small_networks_are_told_what_to_set_instead() -> None:
    with pytest.raises(ConfigError, match=r"resources\.cpus and resources\.threads"):
        profiles_document(load_config("spread_toy"))

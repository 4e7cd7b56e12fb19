"""Placement: config in, seats and bundles out."""

from dataclasses import replace

from training_core.config.files import load_config
from workers.sizing.placement import COORDINATOR_CPUS, demand, place


def test_demonstration_has_one_process_per_policy() -> None:
    placement = place(load_config("plan_path_duo"))
    assert [actor_slot.name for actor_slot in placement.actor_slots] == [
        "policy-planner",
        "policy-executor",
        "coordinator",
        "environment-0",
        "environment-1",
    ]
    assert placement.bundles == [
        {"CPU": 0.5},
        {"CPU": 0.5},
        {"CPU": COORDINATOR_CPUS},
        {"CPU": 0.1},
        {"CPU": 0.1},
    ]
    assert [actor_slot.bundle for actor_slot in placement.actor_slots] == [0, 1, 2, 3, 4]


def test_shared_policy_has_one_pool() -> None:
    placement = place(load_config("plan_path_duo", {"team.roles.executor.policy": "planner"}))
    assert [actor_slot.name for actor_slot in placement.actor_slots if actor_slot.policy] == [
        "policy-planner"
    ]


def test_separate_placement_has_devices_per_worker_kind() -> None:
    devices = {
        "placement": "apart",
        "rollout_workers": 2,
        "rollout_gpus": 1,
        "update_workers": 2,
        "update_gpus": 1,
        "update_cpus": 1,
    }
    config = load_config("plan_path_duo", {"policies.planner.devices": devices})
    placement = place(config)
    assert [actor_slot.resources for actor_slot in placement.of("update", "planner")] == [
        {"CPU": 1.0, "GPU": 1.0},
        {"CPU": 1.0, "GPU": 1.0},
    ]
    rollout = placement.of("rollout", "planner")
    assert [(actor_slot.name, actor_slot.resources) for actor_slot in rollout] == [
        ("rollout-planner-0", {"CPU": 0.5, "GPU": 1.0}),
        ("rollout-planner-1", {"CPU": 0.5, "GPU": 1.0}),
    ]
    assert len(placement.of("policy", "executor")) == 1


def test_a_split_engine_gets_its_gpus_in_one_bundle() -> None:
    planner = {
        "engine": {"type": "vllm", "tensor_parallel": 4},
        "devices": {"placement": "apart", "rollout_workers": 2, "rollout_gpus": 4, "update_gpus": 1},
    }
    wanted = demand(load_config("plan_path_duo", {"policies.planner": planner}))
    assert [bundle["GPU"] for bundle in wanted.bundles if "GPU" in bundle] == [1.0, 4.0, 4.0]


def test_frozen_policy_apart_has_no_update_worker() -> None:
    overrides = {"team.roles.planner.trained": False, "policies.planner.devices.placement": "apart"}
    placement = place(load_config("plan_path_duo", overrides))
    assert placement.of("update", "planner") == []
    assert len(placement.of("rollout", "planner")) == 1


def test_a_slot_without_resources_has_no_bundle() -> None:
    placement = place(load_config("plan_path_duo", {"resources.environment_cpus": 0}))
    assert [actor_slot.bundle for actor_slot in placement.actor_slots] == [0, 1, 2, None, None]
    assert len(placement.bundles) == 3


def test_demand_is_the_sum_of_the_bundles() -> None:
    config = load_config("plan_path_duo", {"policies.planner.devices.rollout_gpus": 0.5})
    wanted = demand(config)
    assert wanted.cpus == 1.3
    assert wanted.gpus == 0.5
    assert wanted.bundles[0] == {"CPU": 0.5, "GPU": 0.5}
    assert str(wanted) == "1.3 CPU cores and 0.5 GPUs"
    assert str(replace(wanted, cpus=1.0, gpus=1.0)) == "1 CPU core and 1 GPU"

"""Resource profiles: the devices of a cluster, and how a run is distributed over them. The sizes are those of PettingLLMs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from training_core.config.experiment import ExperimentConfig
from training_core.errors import ConfigError

EVALUATION_ROOM = 32
"""Minimum number of environments per worker: held-out tasks are played in waves as large as all workers together host."""


@dataclass(frozen=True)
class Profile:
    """Devices of a whole cluster."""

    gpus: int
    cpus: int
    memory: int
    """Gigabytes of RAM."""


PROFILES: dict[str, Profile] = {
    "minimal": Profile(2, 16, 32),
    "recommended": Profile(8, 64, 128),
    "large": Profile(32, 256, 512),
}


def profile_overrides(name: str, config: ExperimentConfig) -> dict[str, Any]:
    """Config fields by dotted path that distribute a run over a profile's devices. Raises KeyError for an unknown
    name, ConfigError for small networks, which learn in one process.

    GPUs are divided evenly between the policies. With two or more per policy, half of them update and each of the
    others has a rollout worker. With one, a single process does both. With less than one, policies share a GPU. Half
    of the cores go to environment workers, one each, which together host an iteration's tasks.
    """
    if not config.models:
        text = "profiles distribute language models over GPUs, but small networks learn in one process"
        raise ConfigError(
            {"resources": text},
            remedy="set resources.cpus and resources.threads, or resources.environment_workers if environments are slow",
        )
    profile = PROFILES[name]
    workers = profile.cpus // 2
    changes: dict[str, Any] = {
        "resources.environment_workers": workers,
        "resources.environment_cpus": 1.0,
        "resources.environments_per_worker": max(EVALUATION_ROOM, -(-config.training_slots // workers)),
    }
    for policy in config.used_policies:
        for field, value in _devices(profile, len(config.used_policies)).items():
            changes[f"policies.{policy}.devices.{field}"] = value
    return changes


def profiles_document(config: ExperimentConfig) -> dict[str, Any]:
    """All profiles for a config, as JSON. Raises ConfigError for small networks."""
    return {
        name: {
            "gpus": profile.gpus,
            "cpus": profile.cpus,
            "memory_gigabytes": profile.memory,
            "overrides": profile_overrides(name, config),
        }
        for name, profile in PROFILES.items()
    }


def _devices(profile: Profile, policies: int) -> Mapping[str, Any]:
    """One policy's devices, when `policies` policies share the profile."""
    share = profile.gpus // policies
    processes = max(share, 1)
    cpus = min(1.0, _down((profile.cpus // 2 - 1) / (policies * processes)))
    if share >= 2:
        return {
            "placement": "apart",
            "rollout_workers": share - share // 2,
            "rollout_gpus": 1.0,
            "rollout_cpus": cpus,
            "update_workers": share // 2,
            "update_gpus": 1.0,
            "update_cpus": cpus,
        }
    together = -(-policies // profile.gpus)
    gpus = 1.0 if share else _down(1 / together)
    return {
        "placement": "colocated",
        "rollout_workers": 1,
        "rollout_gpus": gpus,
        "rollout_cpus": cpus,
        "update_workers": 1,
    }


def _down(amount: float) -> float:
    """Round down to four decimals: Ray counts in ten thousandths."""
    return int(amount * 10_000) / 10_000

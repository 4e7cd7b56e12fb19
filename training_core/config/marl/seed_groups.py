"""Configs whose seeds are trained in one process (training_core/marl/seed_group.py). Imports no torch."""

from typing import TYPE_CHECKING, Any

from training_core.marl.algorithms.custom_ppo.config import CustomPpo

if TYPE_CHECKING:
    from training_core.config.marl.run import MarlConfig

ACTIVATIONS = ("tanh", "relu")
"""Activations whose derivatives follow from their values."""


def reason_for_separate_runs(config: "MarlConfig") -> str:
    """The property of a config for which its seeds are not trained in one process; empty if they can be."""
    networks = [config.policies[name].network for name in config.used_policies]
    learners = [config.policies[name].learner for name in config.used_policies]
    resources = config.resources
    reasons = {
        "GPUs": bool(resources.gpus),
        "environments in processes of their own": resources.environment_workers > 0,
        "a custom algorithm": isinstance(config.algorithm, CustomPpo),
        "networks other than mlp": any(network.type != "mlp" for network in networks),
        "separate weights of agents": any(not network.share_parameters for network in networks),
        f"activations other than {' and '.join(ACTIVATIONS)}": any(
            network.activation not in ACTIVATIONS for network in networks
        ),
        "precision other than fp32": any(learner.precision != "fp32" for learner in learners),
        "compiled updates": any(learner.compile for learner in learners),
        "continuous actions": bool(getattr(config.environment, "continuous_actions", False)),
        "environments other than the native multi-particle ones": not _has_native_worlds(config),
        "episodes that continue over rollouts": _continues_episodes(config),
    }
    return next((reason for reason, applies in reasons.items() if applies), "")


def _has_native_worlds(config: "MarlConfig") -> bool:
    """Native multi-particle environments without wrappers."""
    section: Any = config.environment
    return getattr(section, "backend", "") == "native" and section.supersuit == type(section.supersuit)()


def _continues_episodes(config: "MarlConfig") -> bool:
    longest = config.environment.longest
    return config.rollout.fresh == "never" or not 0 < longest <= config.rollout.steps

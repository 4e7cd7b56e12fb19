"""Unfinished episodes in a checkpoint, for rollouts that continue them: <checkpoint>/episodes.safetensors.

Environments are stored by VectorEnvironment.episode_state, together with the policies' memories and the episodes' rewards
so far.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from training_core.checkpoints import read_errors_explained
from training_core.config.marl.run import MarlConfig
from training_core.errors import CheckpointError
from training_core.marl.environments.episode_state import Arrays, select_prefix, with_prefix
from training_core.marl.learning.learner import PolicyLearner
from training_core.marl.networks.base import memory_arrays, memory_of
from training_core.marl.vector_runner import VectorRunner

log = logging.getLogger(__name__)

FILE = "episodes.safetensors"


def save_episodes(
    folder: Path, config: MarlConfig, runner: VectorRunner, learners: Mapping[str, PolicyLearner]
) -> None:
    """Write the unfinished episodes; nothing if there are none, or if they cannot be stored. Raises CheckpointError."""
    environments = runner.environment.episode_state() if runner.view is not None else None
    if environments is None:
        return
    arrays = with_prefix("environments", environments) | with_prefix("stage", runner.state_arrays())
    for name, learner in learners.items():
        arrays |= with_prefix(f"critic.{name}", memory_arrays(learner.memory))
    tensors = {name: torch.from_numpy(np.ascontiguousarray(part)) for name, part in arrays.items()}
    try:
        save_file(tensors, folder / FILE, {"of": _identity(config)})
    except OSError as error:
        raise CheckpointError(f"cannot write {folder / FILE}: {error}; is the disk full?") from error


def load_episodes(folder: Path, config: MarlConfig) -> Arrays | None:
    """The data of `save_episodes`; None if there is none, or if it belongs to other environments. Raises CheckpointError."""
    path = folder / FILE
    if not path.is_file():
        return None
    with read_errors_explained(folder, "these environments"):
        with safe_open(path, "pt") as opened:
            matches = (opened.metadata() or {}).get("of") == _identity(config)
        if not matches:
            log.warning(
                "the environments have changed since the checkpoint %s: new episodes are started", folder
            )
            return None
        return {name: tensor.numpy() for name, tensor in load_file(path).items()}


def continue_episodes(arrays: Arrays, runner: VectorRunner, learners: Mapping[str, PolicyLearner]) -> bool:
    """Restore everything; False if the environments do not reproduce the episodes and need a reset."""
    view = runner.environment.restore(select_prefix(arrays, "environments"))
    if view is None or not runner.restore(select_prefix(arrays, "stage"), view):
        log.warning(
            "the environments do not reproduce their episodes from seeds and actions: new episodes are started, so "
            "the run's curve differs from that of an uninterrupted run"
        )
        return False
    for name, learner in learners.items():
        device = learner.actor_adam.gradients.device
        learner.set_memory(memory_of(select_prefix(arrays, f"critic.{name}"), device))
    return True


def _identity(config: MarlConfig) -> str:
    """The settings that must be equal to continue episodes."""
    return json.dumps(
        {
            "environment": config.environment.model_dump(mode="json"),
            "environments": config.rollout.environments,
            "workers": config.resources.environment_workers,
        },
        sort_keys=True,
    )

"""Episodes under way in a checkpoint, where rollouts go on with them: <checkpoint>/episodes.safetensors.

Environments are kept as they keep themselves (VectorEnvironment.episodes); beside them what policies remember, and what the episodes
have earned so far.
"""

import json
import logging
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from training_core.checkpoint_reading import explained
from training_core.config.marl.run import MarlConfig
from training_core.errors import CheckpointError
from training_core.marl.environments.keeping import Kept, part_of, under
from training_core.marl.learning.learner import PolicyLearner
from training_core.marl.networks.base import memory_arrays, memory_of
from training_core.marl.stage import Stage

log = logging.getLogger(__name__)

FILE = "episodes.safetensors"


def save_episodes(
    folder: Path, config: MarlConfig, stage: Stage, learners: Mapping[str, PolicyLearner]
) -> None:
    """Write the episodes under way; nothing where there are none, or where they cannot be kept. Raises CheckpointError."""
    environments = stage.environment.episodes() if stage.view is not None else None
    if environments is None:
        return
    kept = under("environments", environments) | under("stage", stage.kept())
    for name, learner in learners.items():
        kept |= under(f"critic.{name}", memory_arrays(learner.memory))
    tensors = {name: torch.from_numpy(np.ascontiguousarray(part)) for name, part in kept.items()}
    try:
        save_file(tensors, folder / FILE, {"of": _identity(config)})
    except OSError as error:
        raise CheckpointError(f"cannot write {folder / FILE}: {error}; is the disk full?") from error


def load_episodes(folder: Path, config: MarlConfig) -> Kept | None:
    """What `save_episodes` wrote; None where there is nothing, or where it is of other environments. Raises CheckpointError."""
    path = folder / FILE
    if not path.is_file():
        return None
    with explained(folder, "these environments"):
        with safe_open(path, "pt") as opened:
            same = (opened.metadata() or {}).get("of") == _identity(config)
        if not same:
            log.warning("the environments have changed since the checkpoint %s: episodes begin anew", folder)
            return None
        return {name: tensor.numpy() for name, tensor in load_file(path).items()}


def continue_episodes(kept: Kept, stage: Stage, learners: Mapping[str, PolicyLearner]) -> bool:
    """Put everything back; false where the environments do not play the same again, and need a reset."""
    view = stage.environment.go_on(part_of(kept, "environments"))
    if view is None or not stage.go_on(part_of(kept, "stage"), view):
        log.warning(
            "the environments do not play the same again from their seeds and actions: episodes begin anew, and the run's curve "
            "is not that of a run without the interruption"
        )
        return False
    for name, learner in learners.items():
        device = learner.actor_adam.weights.device
        learner.remember(memory_of(part_of(kept, f"critic.{name}"), device))
    return True


def _identity(config: MarlConfig) -> str:
    """What must be the same for episodes to be continued."""
    return json.dumps(
        {
            "environment": config.environment.model_dump(mode="json"),
            "environments": config.rollout.environments,
            "workers": config.resources.environment_workers,
        },
        sort_keys=True,
    )

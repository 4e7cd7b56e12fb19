"""Checkpoints of small-network policies, and of unfinished episodes for rollouts that continue them.

<checkpoint>/<policy>/actor.safetensors, critic.safetensors   weights by name
<checkpoint>/<policy>/optimizer.safetensors                    moments and step counts of both, each as one vector
<checkpoint>/<policy>/policy.json                              updates, value scale, sizes
<checkpoint>/episodes.safetensors                              environments (VectorEnvironment.episode_state), the policies'
                                                               memories, and the episodes' rewards so far
Nothing is pickled, so loading cannot run code.
"""

import json
import logging
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from training_core.checkpoints import POLICY, read_errors_explained, write_errors_explained
from training_core.config.marl import MarlConfig
from training_core.errors import CheckpointError
from training_core.marl.environments.episodes import Arrays, select_prefix, with_prefix
from training_core.marl.learning.critics import ValueScale
from training_core.marl.learning.learner import PolicyLearner
from training_core.marl.networks.base import memory_arrays, memory_of
from training_core.marl.vector_runner import VectorRunner


def save_policy(folder: Path, learner: PolicyLearner) -> None:
    """Write everything of one policy into `folder`. Raises CheckpointError."""
    facts = {
        "kind": "marl",
        "updates": learner.updates,
        "value_scale": asdict(learner.scale),
        "agents": learner.slots.agents,
        "observation_dim": learner.slots.observation_dim,
    }
    optimisers = {"actor": learner.actor_adam, "critic": learner.critic_adam}
    moments = {
        f"{name}.{key}": tensor
        for name, adam in optimisers.items()
        for key, tensor in adam.state_dict().items()
    }
    with write_errors_explained(f"the checkpoint {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        for name, network in (("actor", learner.actor), ("critic", learner.critic)):
            weights = {key: tensor.contiguous().clone() for key, tensor in network.state_dict().items()}
            save_file(weights, folder / f"{name}.safetensors")
        save_file(moments, folder / "optimizer.safetensors")
        (folder / POLICY).write_text(json.dumps(facts, indent=1))


def load_policy(folder: Path, learner: PolicyLearner) -> None:
    """Restore weights, optimisers and value scale. Raises CheckpointError."""
    with read_errors_explained(folder, "this policy's networks"):
        facts = json.loads((folder / POLICY).read_text())
        moments = load_file(folder / "optimizer.safetensors")
        networks = {"actor": learner.actor, "critic": learner.critic}
        optimisers = {"actor": learner.actor_adam, "critic": learner.critic_adam}
        with torch.no_grad():
            for name, network in networks.items():
                network.load_state_dict(load_file(folder / f"{name}.safetensors"))
        for name, adam in optimisers.items():
            start = f"{name}."
            adam.load_state_dict(
                {k.removeprefix(start): v for k, v in moments.items() if k.startswith(start)}
            )
        scale = facts["value_scale"]
        if "square" in scale:  # as version 0.1.0 wrote it: the mean of squares
            scale["variance"] = scale.pop("square") - scale["mean"] ** 2
        learner.scale = ValueScale(**scale)
        learner.updates = int(facts["updates"])


def load_actor(folder: Path, learner: PolicyLearner) -> None:
    """Load only the actor's weights. Raises CheckpointError."""
    with read_errors_explained(folder, "this policy's networks"), torch.no_grad():
        learner.actor.load_state_dict(load_file(folder / "actor.safetensors"))


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

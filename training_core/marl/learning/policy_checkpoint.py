"""One small-network policy's part of a checkpoint.

<checkpoint>/<policy>/actor.safetensors, critic.safetensors   weights by name
<checkpoint>/<policy>/optimizer.safetensors                    moments and step counts of both, each as one vector
<checkpoint>/<policy>/policy.json                              updates, value scale, sizes
Nothing is pickled, so loading cannot run code.
"""

import json
from dataclasses import asdict
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from training_core.checkpoints import POLICY, read_errors_explained, write_errors_explained
from training_core.marl.learning.learner import PolicyLearner
from training_core.marl.learning.value_scale import ValueScale


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

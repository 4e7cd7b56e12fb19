"""One policy's part of a checkpoint: a Hugging Face folder that any run can start from, and what learning needs beside it.

<checkpoint>/<policy>/model.safetensors, config.json, tokenizer.json ...   the weights, as transformers saves them
<checkpoint>/<policy>/optimizer.safetensors   moments, step counts and fp32 copies by weight; torch's generator state
<checkpoint>/<policy>/policy.json             version, learning-rate schedule, counters
Nothing is pickled: what is read back cannot run code.
"""

import json
import re
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from training_core.config.team import NAME_PATTERN
from training_core.errors import CheckpointError
from training_core.llm.learning.learner import Learner, LearnerState

GENERATOR = "generator"
_ONE_FILE = "1TB"
"""No sharding: one file is what is read back."""


def policy_folder(checkpoint: Path, policy: str) -> Path:
    """Where a policy is in a checkpoint. Raises CheckpointError for a name that could lead elsewhere."""
    if not re.fullmatch(NAME_PATTERN, policy):
        raise CheckpointError(f"{policy!r} is no policy's name")
    return checkpoint / policy


def save_policy(folder: Path, learner: Learner, tokenizer: PreTrainedTokenizerBase, version: int) -> None:
    """Write everything of one policy into `folder`. Raises CheckpointError."""
    state = learner.state_dict()
    facts = {
        "version": version,
        "counters": state.counters,
        "schedule": learner.settings.model_dump(
            include={"schedule", "learning_rate", "final_learning_rate", "warmup_iterations"}
        )
        | {"iterations": learner.iterations},
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        learner.model.save_pretrained(folder, max_shard_size=_ONE_FILE)
        tokenizer.save_pretrained(folder)
        save_file(state.optimiser | {GENERATOR: state.generator}, folder / "optimizer.safetensors")
        (folder / "policy.json").write_text(json.dumps(facts, indent=1))
    except OSError as error:
        raise CheckpointError(f"cannot write the checkpoint {folder}: {error}; is the disk full?") from error


def load_policy(folder: Path, learner: Learner) -> int:
    """Put weights, optimiser, generator and counters back as they were; returns the version. Raises CheckpointError.

    The learning rate is the config's of the run that goes on, so a fork may have a schedule of its own.
    """
    try:
        weights = load_file(folder / "model.safetensors", device=str(learner.model.device))
        tensors = load_file(folder / "optimizer.safetensors")
        facts: dict[str, Any] = json.loads((folder / "policy.json").read_text())
        generator = tensors.pop(GENERATOR)
        learner.load_state_dict(
            LearnerState(_with_tied(weights, learner), tensors, generator, dict(facts["counters"]))
        )
        return int(facts["version"])
    except FileNotFoundError as error:
        raise CheckpointError(
            f"the checkpoint {folder} is not complete ({error.filename} is missing); resume from another one"
        ) from error
    except (OSError, KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"the checkpoint {folder} does not fit this policy's model, or is torn: {error}; "
            "resume with the config that it was written under, or from another checkpoint"
        ) from error


def _with_tied(weights: dict[str, Tensor], learner: Learner) -> dict[str, Tensor]:
    """A file holds weights that share their memory under one name only; add the others."""
    names: dict[int, list[str]] = {}
    for name, tensor in learner.model.state_dict().items():
        names.setdefault(tensor.data_ptr(), []).append(name)
    whole = dict(weights)
    for together in names.values():
        known = next((weights[name] for name in together if name in weights), None)
        if known is not None:
            whole.update(dict.fromkeys(together, known))
    return whole

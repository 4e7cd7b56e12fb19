"""One policy's part of a checkpoint: a Hugging Face folder that any run can start from, and the learner's state.

<checkpoint>/<policy>/model.safetensors, config.json, tokenizer.json ...   the weights, as transformers saves them
                          adapter_model.safetensors, adapter_config.json instead if only an adapter is trained
<checkpoint>/<policy>/optimizer.safetensors   moments, step counts and fp32 copies by weight
<checkpoint>/<policy>/critic.safetensors      PPO's value head and its moments, if it has one
<checkpoint>/<policy>/policy.json             version, learning-rate schedule, counters; "frozen": true if there is no
                                              optimizer.safetensors, since the policy was not trained in that run
Nothing is pickled, so loading cannot run code.
"""

import json
import re
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from training_core.checkpoints import POLICY, read_errors_explained, write_errors_explained
from training_core.config.team import NAME_PATTERN
from training_core.errors import CheckpointError, ModelError
from training_core.llm.learning.learner import Learner, LearnerState
from training_core.llm.models.loading import load_tokenizer
from training_core.llm.models.lora import (
    has_adapter,
    load_trained_weights,
    read_adapter,
    save_adapter,
    trained_weights,
)
from training_core.llm.models.shape import ADAPTER_CONFIG, adapter_config

GENERATOR = "generator"
"""torch's global state in checkpoints of older versions; no longer used."""
CRITIC = "critic.safetensors"


def policy_folder(checkpoint: Path, policy: str) -> Path:
    """The folder of a policy in a checkpoint. Raises CheckpointError for a name that leads elsewhere."""
    if not re.fullmatch(NAME_PATTERN, policy):
        raise CheckpointError(f"{policy!r} is not the name of a policy")
    return checkpoint / policy


def save_policy(folder: Path, learner: Learner, tokenizer: PreTrainedTokenizerBase, version: int) -> None:
    """Write everything of one policy into `folder`. Raises CheckpointError."""
    state = learner.state_dict()
    facts = {
        "version": version,
        "counters": state.counters,
        "critic": bool(state.critic),
        "schedule": learner.settings.model_dump(
            include={"schedule", "learning_rate", "final_learning_rate", "warmup_iterations"}
        )
        | {"iterations": learner.iterations},
    }
    with write_errors_explained(f"the checkpoint {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        _save_model(folder, learner.model, state.weights)
        tokenizer.save_pretrained(folder)
        save_file(state.optimiser, folder / "optimizer.safetensors")
        if state.critic:
            save_file(state.critic, folder / CRITIC)
        (folder / POLICY).write_text(json.dumps(facts, indent=1))


def save_frozen(
    folder: Path, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, version: int
) -> None:
    """Write a policy that is not trained: only its weights. Raises CheckpointError."""
    with write_errors_explained(f"the checkpoint {folder}"):
        folder.mkdir(parents=True, exist_ok=True)
        _save_model(folder, model, trained_weights(model))
        tokenizer.save_pretrained(folder)
        (folder / POLICY).write_text(json.dumps({"version": version, "frozen": True}, indent=1))


def load_policy(folder: Path, learner: Learner) -> int:
    """Restore weights, optimiser and counters; return the version. Raises CheckpointError.

    The learning rate is that of the continuing run's config, so a fork may have its own schedule. A policy that was
    frozen when the checkpoint was written starts with a new optimiser.
    """
    with read_errors_explained(folder, "this policy's model"):
        facts = _read_facts(folder)
        with learner.gathered():
            weights = _read_weights(folder, learner.model)
        if facts.get("frozen"):
            learner.load_weights(weights)
            return int(facts["version"])
        tensors = load_file(folder / "optimizer.safetensors")
        tensors.pop(GENERATOR, None)
        critic = load_file(folder / CRITIC) if facts.get("critic") else {}
        learner.load_state_dict(LearnerState(weights, tensors, dict(facts["counters"]), critic))
        return int(facts["version"])


def load_frozen(folder: Path, model: PreTrainedModel) -> int:
    """Load a policy's weights into `model`; return the version. Raises CheckpointError."""
    with read_errors_explained(folder, "this policy's model"):
        version = int(_read_facts(folder)["version"])
        load_trained_weights(model, _read_weights(folder, model))
        return version


def check_tokenizer(folder: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raises CheckpointError if the weights were trained with other token ids than `tokenizer` gives."""
    if not (folder / "tokenizer_config.json").is_file():
        return
    try:
        same = load_tokenizer(folder).get_vocab() == tokenizer.get_vocab()
    except ModelError as error:
        raise CheckpointError(
            f"the checkpoint {folder} has a tokenizer that cannot be read: {error}"
        ) from error
    if not same:
        raise CheckpointError(
            f"the checkpoint {folder} was trained with another vocabulary than this config's model has",
            remedy="use the model and the environment that the checkpoint was written with",
        )


def _save_model(folder: Path, model: PreTrainedModel, weights: dict[str, Tensor]) -> None:
    """The model, or only its adapter."""
    if has_adapter(model):
        save_adapter(folder, model, weights, str(model.name_or_path))
    else:
        _save_whole(folder, model, weights)


def _save_whole(folder: Path, model: PreTrainedModel, weights: dict[str, Tensor]) -> None:
    """Equivalent to `save_pretrained` with one file, which would import DeepSpeed wherever it is installed."""
    model.config.architectures = [type(model).__name__]
    model.config.save_pretrained(folder)
    if model.generation_config is not None:
        model.generation_config.save_pretrained(folder)
    names = {tensor.data_ptr(): name for name, tensor in reversed(weights.items())}
    unique = {
        name: weights[name].contiguous() for name in names.values()
    }  # tied weights under their first name
    save_file(unique, folder / "model.safetensors", {"format": "pt"})


def _read_weights(folder: Path, model: PreTrainedModel) -> dict[str, Tensor]:
    """The trained weights of `model`. Raises CheckpointError if the folder contains another kind of policy."""
    is_adapter = (folder / ADAPTER_CONFIG).is_file()
    if is_adapter != has_adapter(model):
        raise CheckpointError(
            f'the checkpoint {folder} was written with adapter.type = "{"lora" if is_adapter else "none"}"',
            remedy="continue with that, or start a new run with this folder as policies.*.model",
        )
    if not is_adapter:
        return _with_tied(load_file(folder / "model.safetensors", device=str(model.device)), model)
    base = str(adapter_config(folder)["base_model_name_or_path"])
    if Path(base).name != Path(str(model.name_or_path)).name:
        raise CheckpointError(
            f"the adapter in {folder} was trained on {base}, but this policy's model is {model.name_or_path}",
            remedy=f"set policies.*.model to {base}",
        )
    return read_adapter(folder, str(model.device))


def _read_facts(folder: Path) -> dict[str, Any]:
    facts = json.loads((folder / POLICY).read_text())
    if not isinstance(facts, dict):
        raise ValueError(f"{POLICY} does not have Troupe's format")
    return facts


def _with_tied(weights: dict[str, Tensor], model: PreTrainedModel) -> dict[str, Tensor]:
    """A file stores weights that share memory under one name only; add the others."""
    names: dict[int, list[str]] = {}
    for name, tensor in model.state_dict().items():
        names.setdefault(tensor.data_ptr(), []).append(name)
    with_aliases = dict(weights)
    for aliases in names.values():
        weight = next((weights[name] for name in aliases if name in weights), None)
        if weight is not None:
            with_aliases.update(dict.fromkeys(aliases, weight))
    return with_aliases

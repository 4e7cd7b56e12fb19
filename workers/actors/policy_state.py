"""One policy's part of a checkpoint: a Hugging Face folder that any run can start from, and the optimiser beside it.

<checkpoint>/<policy>/model.safetensors, config.json, tokenizer.json ...   the weights, as transformers saves them
<checkpoint>/<policy>/optimizer.safetensors   moments and step counts by parameter, and torch's generator state
<checkpoint>/<policy>/policy.json             version
Nothing is pickled: what is read back cannot run code.
"""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, load_model, save_file
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from training_core.errors import CheckpointError

GENERATOR = "generator"
ONE_FILE = "1TB"
"""No sharding: one file is what is read back."""


def save_policy(
    folder: Path,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    optimizer: torch.optim.Optimizer,
    version: int,
) -> None:
    """Write everything of one policy into `folder`. Raises CheckpointError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        model.save_pretrained(folder, max_shard_size=ONE_FILE)
        tokenizer.save_pretrained(folder)
        tensors = _flat(optimizer.state_dict()["state"])
        save_file(tensors | {GENERATOR: torch.get_rng_state()}, folder / "optimizer.safetensors")
        (folder / "policy.json").write_text(json.dumps({"version": version}))
    except OSError as error:
        raise CheckpointError(f"cannot write the checkpoint {folder}: {error}; is the disk full?") from error


def load_policy(folder: Path, model: PreTrainedModel, optimizer: torch.optim.Optimizer) -> int:
    """Put weights, optimiser and generator back as they were; returns the version. Raises CheckpointError."""
    try:
        load_model(model, folder / "model.safetensors", device=str(model.device))
        tensors = load_file(folder / "optimizer.safetensors")
        torch.set_rng_state(tensors.pop(GENERATOR))
        state: dict[str, Any] = {
            "state": _nested(tensors),
            "param_groups": optimizer.state_dict()["param_groups"],
        }
        optimizer.load_state_dict(state)
        return int(json.loads((folder / "policy.json").read_text())["version"])
    except FileNotFoundError as error:
        raise CheckpointError(
            f"the checkpoint {folder} is not complete ({error.filename} is missing); resume from another one"
        ) from error
    except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
        raise CheckpointError(
            f"the checkpoint {folder} does not fit this policy's model, or is torn: {error}; "
            "resume with the config that it was written under, or from another checkpoint"
        ) from error


def _flat(state: dict[int, dict[str, Tensor]]) -> dict[str, Tensor]:
    """{parameter: {"exp_avg": tensor}} -> {"parameter.exp_avg": tensor}."""
    return {
        f"{number}.{name}": item.contiguous() for number, part in state.items() for name, item in part.items()
    }


def _nested(tensors: dict[str, Tensor]) -> dict[int, dict[str, Tensor]]:
    state: dict[int, dict[str, Tensor]] = {}
    for key, tensor in tensors.items():
        number, name = key.split(".", 1)
        state.setdefault(int(number), {})[name] = tensor
    return state

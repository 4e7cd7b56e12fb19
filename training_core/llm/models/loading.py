"""Loading causal language models and tokenizers: one path for every Hugging Face folder or hub id."""

from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from training_core.errors import ModelError

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def load_tokenizer(source: Path | str) -> PreTrainedTokenizerBase:
    """The tokenizer beside a model. Raises ModelError where it is missing or has no end-of-text token."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(source))
    except (OSError, ValueError) as error:
        raise ModelError(_advice(source, error)) from error
    if tokenizer.eos_token_id is None:
        raise ModelError(
            f"the tokenizer of {source} has no end-of-text token; set eos_token in its tokenizer_config.json"
        )
    loaded: PreTrainedTokenizerBase = tokenizer
    return loaded


def load_model(source: Path | str, precision: str = "fp32", device: str = "cpu") -> PreTrainedModel:
    """A causal language model on `device` in `precision` (fp32 or bf16). Raises ModelError."""
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(str(source), dtype=DTYPES[precision])
    except (OSError, ValueError) as error:
        raise ModelError(_advice(source, error)) from error
    module: torch.nn.Module = model  # whose `to` is typed; it moves the model in place
    module.to(torch.device(device))
    return model


def _advice(source: Path | str, error: Exception) -> str:
    first = str(error).strip().splitlines()[0]
    return (
        f"cannot load the model {str(source)!r}: {first}. Give policies.*.model a folder with config.json, "
        'model.safetensors and tokenizer.json, a hub id that this machine can reach, or "tiny"'
    )

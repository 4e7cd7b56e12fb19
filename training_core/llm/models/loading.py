"""Loading causal language models and tokenizers: one path for every Hugging Face folder or hub id.

Weights are safetensors only, and code in a model's folder is not run, so loading cannot execute code.
"""

from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

from training_core.errors import Advice, ModelError
from training_core.fast_linear import use_fast_products
from training_core.llm.models.fused_kernels import use_fused_kernels
from training_core.llm.models.lora import ADAPTER_WEIGHTS, merge_into
from training_core.llm.models.shape import ADAPTER_CONFIG, adapter_config

DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
_FILES = "config.json, model.safetensors and tokenizer.json"
_WANTED = f'set policies.*.model to a folder with {_FILES}, a hub id that this machine can reach, or "tiny"'
_NO_ANSWER = {"LocalEntryNotFoundError", "OfflineModeIsEnabled", "ConnectError", "ConnectionError"}
"""Names of exceptions of huggingface_hub and of its HTTP clients, when the hub does not answer."""
_REFUSALS = (OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError)
"""Exceptions of transformers for a folder that is missing, damaged, of an unknown architecture or in another format."""


def load_tokenizer(source: Path | str) -> PreTrainedTokenizerBase:
    """The tokenizer in a model's folder. Raises ModelError if it is missing or has no end-of-text token."""
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(source))
    except _REFUSALS as error:
        raise ModelError(_advice(source, error)) from error
    if tokenizer.eos_token_id is None:
        raise ModelError(
            f"the tokenizer of {source} has no end-of-text token",
            remedy="set eos_token in its tokenizer_config.json",
        )
    loaded: PreTrainedTokenizerBase = tokenizer
    return loaded


def load_model(source: Path | str, precision: str = "fp32", device: str = "cpu") -> PreTrainedModel:
    """A causal language model on `device` in `precision` (fp32, bf16 or fp16), in evaluation mode. Raises ModelError.

    For a folder with an adapter, returns its base model with the adapter merged.
    """
    if precision not in DTYPES:
        raise ModelError(f"there is no precision {precision!r}", remedy=f"use one of {', '.join(DTYPES)}")
    if (Path(source) / ADAPTER_CONFIG).is_file():
        return _with_adapter(Path(source), precision, device)
    try:
        model: PreTrainedModel = AutoModelForCausalLM.from_pretrained(
            str(source), dtype=DTYPES[precision], use_safetensors=True, trust_remote_code=False
        )
    except _REFUSALS as error:
        raise ModelError(_advice(source, error)) from error
    module: torch.nn.Module = model  # a type with a typed `to`, which moves the model in place
    module.to(torch.device(device))
    module.eval()
    use_fast_products(model)
    use_fused_kernels(model)
    return model


def merge_folder(folder: Path) -> bool:
    """Replace the adapter in a folder by the whole merged model; False if there is no adapter in it.

    Raises ModelError if its base model cannot be read here.
    """
    if not (folder / ADAPTER_CONFIG).is_file():
        return False
    load_model(folder).save_pretrained(folder)
    for name in (ADAPTER_CONFIG, ADAPTER_WEIGHTS):
        (folder / name).unlink()
    return True


def _with_adapter(folder: Path, precision: str, device: str) -> PreTrainedModel:
    base = str(adapter_config(folder)["base_model_name_or_path"])
    model = load_model(base, precision, device)
    try:
        merge_into(model, folder)
    except _REFUSALS as error:
        raise ModelError(f"the adapter in {folder} does not fit its base model {base}: {error}") from error
    model.name_or_path = str(folder)
    return model


def _advice(source: Path | str, error: Exception) -> Advice:
    name, folder = repr(str(source)), Path(source)
    if not folder.exists() and (folder.is_absolute() or str(source).startswith((".", "~"))):
        return Advice(f"there is no model folder {name} on the machine of the workers", _WANTED)
    if not folder.exists() and _unreachable(error):
        return Advice(
            f"the model {name} is neither a folder nor downloaded, and the hub cannot be reached",
            "connect the machine of the "
            f"workers to huggingface.co, download the model there, or set policies.*.model to a folder with {_FILES}",
        )
    first = (str(error).strip() or type(error).__name__).splitlines()[0].partition(". ")[0].rstrip(".")
    return Advice(f"cannot load the model {name}: {first}", _WANTED)


def _unreachable(error: BaseException | None) -> bool:
    """Whether no answer of the hub is the cause: it is offline, or the download is switched off."""
    while error is not None:
        names = {base.__name__ for base in type(error).__mro__}
        if names & _NO_ANSWER or "couldn't connect to" in str(error):
            return True
        error = error.__cause__
    return False

"""Supervised warm start of a policy: a model trained on conversations before the run's first iteration.

The result is a Hugging Face folder below <home>/models/, created once per base model, data and settings, and then
loaded like any other base model: by all workers of a policy, under adapters, and as the reference of a KL penalty.
Only the assistant's tokens count in the loss (see learning.loss_masks).
"""

import hashlib
import json
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from training_core.checkpoint_reading import write_errors_explained
from training_core.config.models import WarmStart
from training_core.config.run import Environment
from training_core.errors import DataError, ModelError
from training_core.llm.base_models.folder_creation import create_once
from training_core.llm.base_models.progress import Progress, silent
from training_core.llm.base_models.tiny_training import train
from training_core.llm.environments.dataset.instances import data_file
from training_core.llm.environments.registry import types_with_warm_start, warm_start_of
from training_core.llm.learning.loss_masks import MaskedTokens, Messages, mask_messages
from training_core.llm.models.loading import load_model, load_tokenizer

SEED = 1
"""Seed of demonstrations and of the order of a file's lines; the tiny model uses those of seed 0."""
FIELD = "policies.*.warm_start.file"


def warm_started_model(
    source: Path | str,
    section: WarmStart,
    environment: Environment,
    home: Path,
    device: str = "cpu",
    progress: Progress = silent,
) -> Path | str:
    """`source` if no warm start is configured, otherwise the folder of the warm-started model, created first if it is
    missing.

    Raises ModelError, ConfigError (no such file) or DataError (a line that cannot be used for training).
    """
    if section.steps == 0:
        return source
    if not section.file and environment.type not in types_with_warm_start():
        raise ModelError(
            f"there are no demonstrations of {environment.type!r} (there are of {', '.join(types_with_warm_start())}); set "
            "policies.*.warm_start.file to a file of conversations"
        )
    file = data_file(section.file, FIELD) if section.file else None
    folder = home / "models" / f"warm-{_digest(source, section, environment, file)}"
    with write_errors_explained(f"the warm-started model to {folder}", ModelError):
        return create_once(
            folder,
            lambda draft, report: _make(draft, source, section, environment, file, device, report),
            progress,
        )


def read_conversations(file: Path) -> list[Messages]:
    """The `messages` of every line of JSON Lines, skipping empty lines. Raises DataError that names file and line."""
    conversations: list[Messages] = []
    with file.open(encoding="utf-8") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                messages = json.loads(line)["messages"]
                if not all(
                    isinstance(item["role"], str) and isinstance(item["content"], str) for item in messages
                ):
                    raise ValueError("role and content must be strings")
            except (ValueError, KeyError, TypeError) as error:
                raise DataError(
                    f'{file.name}, line {number}: must be {{"messages": [{{"role", "content"}}, ...]}} ({error})'
                ) from error
            conversations.append(messages)
    if not conversations:
        raise DataError(f"{file.name} has no conversation")
    return conversations


def padded(examples: list[MaskedTokens], pad: int) -> tuple[Tensor, Tensor]:
    """Token ids (N, S), right-padded, and labels (N, S) with -100 for tokens that are not trained on."""
    width = max(len(example.token_ids) for example in examples)
    ids = torch.full((len(examples), width), pad)
    labels = torch.full((len(examples), width), -100)
    for row, example in enumerate(examples):
        tokens = torch.tensor(example.token_ids)
        ids[row, : len(tokens)] = tokens
        labels[row, : len(tokens)] = torch.where(torch.tensor(example.loss_mask), tokens, -100)
    return ids, labels


def _make(
    draft: Path,
    source: Path | str,
    section: WarmStart,
    environment: Environment,
    file: Path | None,
    device: str,
    progress: Progress,
) -> dict[str, Any]:
    """Write the warm-started model into `draft`; return the facts about it."""
    progress(0.0, "warm start: reading conversations")
    tokenizer = load_tokenizer(source)
    model = load_model(source, "fp32", device)
    conversations = read_conversations(file) if file else None
    drawn = _shuffled(conversations) if conversations else _demonstrated(environment)
    encoded_by_text: dict[str, MaskedTokens] = {}
    longest = getattr(model.config, "max_position_embeddings", None)
    examples = [
        _example(messages, section.loss_mask, tokenizer, encoded_by_text, longest)
        for messages in islice(drawn, section.steps * section.batch)
    ]
    pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    ids, labels = padded(examples, int(pad))
    loss = train(model, ids, labels, section, progress)
    model.save_pretrained(draft)
    tokenizer.save_pretrained(draft)
    progress(1.0, "warm start: done")
    return {
        "model": str(source),
        "conversations": len(conversations) if conversations else len(examples),
        "loss": round(loss, 4),
        "warm_start": section.model_dump(),
    }


def _example(
    messages: Messages,
    kind: str,
    tokenizer: PreTrainedTokenizerBase,
    encoded_by_text: dict[str, MaskedTokens],
    longest: int | None,
) -> MaskedTokens:
    """A conversation as tokens; equal conversations are rendered once. Raises DataError."""
    key = json.dumps(messages)
    if key not in encoded_by_text:
        masked = mask_messages(kind, messages, tokenizer)
        if not masked.response_length:
            raise DataError(f"a conversation has no tokens to train on: {key[:200]}")
        if longest is not None and len(masked.token_ids) > longest:
            raise DataError(
                f"a conversation has {len(masked.token_ids)} tokens, but the model accepts at most {longest}: "
                f"{key[:200]}"
            )
        encoded_by_text[key] = masked
    return encoded_by_text[key]


def _shuffled(conversations: list[Messages]) -> Iterator[Messages]:
    """Endless passes, each in a different order."""
    random = Random(SEED)
    while True:
        yield from random.sample(conversations, len(conversations))


def _demonstrated(environment: Environment) -> Iterator[Messages]:
    for observation, answer in warm_start_of(environment.type).demonstrations(environment, SEED):
        before = (
            [{"role": "user", "content": observation}]
            if isinstance(observation, str)
            else [dict(turn) for turn in observation]
        )
        yield [*before, {"role": "assistant", "content": answer}]


def _digest(source: Path | str, section: WarmStart, environment: Environment, file: Path | None) -> str:
    """A digest of the folder's inputs; a model folder's weights are identified by their sizes and times."""
    weights = sorted(Path(source).glob("*.safetensors")) if Path(source).is_dir() else []
    inputs = {
        "source": str(source),
        "weights": [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in weights],
        "section": section.model_dump(),
        "environment": None if file else environment.model_dump(mode="json"),
        "file": hashlib.sha256(file.read_bytes()).hexdigest() if file else None,
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()[:12]

"""Supervised warm start: a model trained on conversations before a run's first iteration.

A warm-started policy is a Hugging Face folder below <home>/models/, created once per base model, data and settings, and
then loaded like any other base model: by all workers of a policy, under adapters, and as the reference of a KL penalty. The
tiny model (tiny.py) is a small Llama that is trained in the same way on demonstrations of its environment.

N conversations, S padded length. Only the assistant's tokens count in the loss (see learning.loss_masks).
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from training_core.checkpoints import write_errors_explained
from training_core.config.models import WarmStart
from training_core.config.run import Environment
from training_core.errors import DataError, ModelError
from training_core.json_lines import read_lines
from training_core.llm.base_models.base_evaluation import evaluate_base
from training_core.llm.base_models.folder_creation import Progress, create_once, silent
from training_core.llm.base_models.tiny import CONTEXT, SPECIAL, TinyRecipe
from training_core.llm.environments.base import Demonstration
from training_core.llm.environments.dataset import data_file
from training_core.llm.environments.registry import types_with_warm_start, warm_start_of
from training_core.llm.generation.torch_engine import TorchEngine
from training_core.llm.learning.loss_masks import MaskedTokens, Messages, mask_messages
from training_core.llm.models.loading import load_model, load_tokenizer
from training_core.llm.workflows.context import NO_ARGUMENTS
from training_core.types import Message

SEED = 1
"""Seed of demonstrations and of the order of a file's lines; the tiny model uses those of seed 0."""
FIELD = "policies.*.warm_start.file"
CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<' + message['role'] + '> ' + message['content'] }}"
    "{{ ' <eos> ' if message['role'] == 'assistant' else ' ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)


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
            f"there are no demonstrations of {environment.type!r} (there are of {', '.join(types_with_warm_start())})",
            remedy="set policies.*.warm_start.file to a file of conversations",
        )
    file = data_file(section.file, FIELD) if section.file else None
    folder = home / "models" / f"warm-{_digest(source, section, environment, file)}"
    with write_errors_explained(f"the warm-started model to {folder}", ModelError):
        return create_once(
            folder,
            lambda draft, report: _make(draft, source, section, environment, file, device, report),
            progress,
        )


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


def read_conversations(file: Path) -> list[Messages]:
    """The `messages` of every line of JSON Lines, skipping empty lines. Raises DataError that names file and line."""
    conversations: list[Messages] = []
    for line in read_lines(file):
        try:
            if line.problem:
                raise ValueError(line.problem)
            messages = line.value["messages"]
            if not all(
                isinstance(item["role"], str) and isinstance(item["content"], str) for item in messages
            ):
                raise ValueError("role and content must be strings")
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f'{file.name}, line {line.number}: must be {{"messages": [{{"role", "content"}}, ...]}} ({error})'
            ) from error
        conversations.append(messages)
    if not conversations:
        raise DataError(f"{file.name} has no conversation")
    return conversations


def _shuffled(conversations: list[Messages]) -> Iterator[Messages]:
    """Endless passes, each in a different order."""
    random = Random(SEED)
    while True:
        yield from random.sample(conversations, len(conversations))


def _demonstrated(environment: Environment) -> Iterator[Messages]:
    for observation, answer in warm_start_of(environment.type).demonstrations(environment, SEED):
        yield [*_messages(_turns(observation)), {"role": "assistant", "content": answer}]


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


def make_tiny(
    environment: Environment, recipe: TinyRecipe, folder: Path, progress: Progress
) -> dict[str, Any]:
    """Write a warm-started model and its tokenizer to `folder`; return the facts about it."""
    source = warm_start_of(environment.type)
    tokenizer = word_tokenizer(source.vocabulary(environment))
    progress(0.0, "drawing demonstrations")
    pairs = list(islice(source.demonstrations(environment, recipe.seed), recipe.steps * recipe.batch))
    ids, labels = padded(encode_pairs(pairs, tokenizer), int(tokenizer.pad_token_id))
    model = new_model(recipe, tokenizer)
    loss = train(model, ids, labels, recipe, progress)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return {
        "model": "tiny",
        "architecture": type(model).__name__,
        "parameters": sum(weight.numel() for weight in model.parameters()),
        "vocabulary": len(tokenizer),
        "environment": environment.model_dump(mode="json"),
        "demonstrations": len(pairs),
        "demonstration_noise": source.noise,
        "loss": round(loss, 4),
        **recipe.model_dump(),
    }


def word_tokenizer(words: tuple[str, ...]) -> PreTrainedTokenizerFast:
    """A tokenizer with one token per word of `words`, split at spaces; unknown words become <unk>."""
    vocabulary = {word: index for index, word in enumerate((*SPECIAL.values(), *words))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=SPECIAL["unk"]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=False)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token=SPECIAL["pad"],
        unk_token=SPECIAL["unk"],
        eos_token=SPECIAL["eos"],
        additional_special_tokens=[SPECIAL["system"], SPECIAL["user"], SPECIAL["assistant"]],
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        padding_side="left",
    )


def new_model(recipe: TinyRecipe, tokenizer: PreTrainedTokenizerFast) -> LlamaForCausalLM:
    """A Llama with random weights (seeded, without touching the global generator)."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=recipe.hidden_size,
        intermediate_size=recipe.intermediate_size,
        num_hidden_layers=recipe.layers,
        num_attention_heads=recipe.heads,
        num_key_value_heads=recipe.heads,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    with torch.random.fork_rng():
        torch.manual_seed(recipe.seed)
        return LlamaForCausalLM(config)


def encode_pairs(pairs: Sequence[Demonstration], tokenizer: PreTrainedTokenizerFast) -> list[MaskedTokens]:
    """Pairs as conversations that end with the answer; equal texts are rendered and encoded once."""

    @cache
    def render(turns: tuple[tuple[str, str], ...]) -> str:
        return str(
            tokenizer.apply_chat_template(_messages(turns), add_generation_prompt=True, tokenize=False)
        )

    texts = [(render(_turns(observation)), answer) for observation, answer in pairs]
    distinct = list(dict.fromkeys(text for pair in texts for text in pair))
    ids = dict(zip(distinct, tokenizer(distinct, add_special_tokens=False)["input_ids"], strict=True))
    end = int(tokenizer.eos_token_id)
    return [
        MaskedTokens(
            [*ids[prompt], *ids[answer], end], [False] * len(ids[prompt]) + [True] * (len(ids[answer]) + 1)
        )
        for prompt, answer in texts
    ]


def _turns(observation: str | tuple[Message, ...]) -> tuple[tuple[str, str], ...]:
    """(role, content) of each message of an observation."""
    if isinstance(observation, str):
        return (("user", observation),)
    return tuple((message["role"], message["content"]) for message in observation)


def _messages(turns: tuple[tuple[str, str], ...]) -> list[dict[str, str]]:
    return [{"role": role, "content": content} for role, content in turns]


def evaluate_model(environment: Environment, folder: Path, device: str = "cpu") -> dict[str, Any]:
    """Evaluate the model in `folder` on the held-out tasks, in all roles; see base_evaluation.evaluate_base."""
    tokenizer = load_tokenizer(folder)
    engine = TorchEngine(load_model(folder, device=device), tokenizer)

    @cache
    def ids(observation: str) -> list[int]:
        encoded: Any = tokenizer.apply_chat_template(
            [{"role": "user", "content": observation}], add_generation_prompt=True, tokenize=True
        )
        return list(encoded["input_ids"])

    def render(
        messages: Sequence[Message], spoken: Sequence[int] = (), arguments: Mapping[str, Any] = NO_ARGUMENTS
    ) -> list[int]:
        assert not spoken and not arguments, "every turn is rendered separately, by the plain template"
        return ids(messages[-1]["content"])

    return evaluate_base(environment, engine.generate, render)


def padded(examples: Sequence[MaskedTokens], pad: int) -> tuple[Tensor, Tensor]:
    """Token ids (N, S), right-padded, and labels (N, S) with -100 for tokens that are not trained on."""
    width = max(len(example.token_ids) for example in examples)
    ids = [example.token_ids + [pad] * (width - len(example.token_ids)) for example in examples]
    labels = [
        [
            token if trained else -100
            for token, trained in zip(example.token_ids, example.loss_mask, strict=True)
        ]
        + [-100] * (width - len(example.token_ids))
        for example in examples
    ]
    return torch.tensor(ids), torch.tensor(labels)


def train(
    model: PreTrainedModel, ids: Tensor, labels: Tensor, recipe: TinyRecipe | WarmStart, progress: Progress
) -> float:
    """AdamW with a cosine schedule, one pass; return the mean loss of the last tenth in nats per token.

    Token ids (N, S), right-padded, and labels (N, S), -100 for tokens that are not trained on; N = steps x batch.
    Dropout uses a separate generator, so the same conversations always give the same weights.
    """
    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
        torch.manual_seed(0)
        optimizer = torch.optim.AdamW(
            model.parameters(), lr=recipe.learning_rate, betas=(0.9, 0.98), weight_decay=0.01, fused=True
        )
        min_rate = recipe.learning_rate / 20
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, recipe.steps, eta_min=min_rate)
        model.train()
        losses: list[float] = []
        for step in range(recipe.steps):
            rows = slice(step * recipe.batch, (step + 1) * recipe.batch)
            width = int((labels[rows] != -100).any(dim=0).nonzero().max()) + 1
            inputs, targets = (part[rows, :width].to(model.device) for part in (ids, labels))
            loss = model(input_ids=inputs, labels=targets, use_cache=False).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad(set_to_none=True)
            losses.append(float(loss.detach()))
            if step % 10 == 0:
                progress(
                    step / recipe.steps, f"warm start: step {step} of {recipe.steps}, loss {losses[-1]:.2f}"
                )
        model.eval()
        last = losses[-max(recipe.steps // 10, 1) :]
        return sum(last) / len(last)

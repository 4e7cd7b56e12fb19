"""Creation of the tiny model, a small Llama trained on (observation, answer) pairs, and its evaluation.

N pairs, S padded length. Only answer tokens count in the loss.
"""

from collections.abc import Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedModel, PreTrainedTokenizerFast

from training_core.config.run import Environment
from training_core.llm.base_models.base_evaluation import evaluate_base
from training_core.llm.base_models.progress import Progress
from training_core.llm.base_models.tiny import CONTEXT, SPECIAL, TinyRecipe
from training_core.llm.environments.base import Demonstration
from training_core.llm.environments.registry import warm_start_of
from training_core.llm.generation.torch.engine import TorchEngine
from training_core.llm.models.loading import load_model, load_tokenizer
from training_core.types import Message

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<' + message['role'] + '> ' + message['content'] }}"
    "{{ ' <eos> ' if message['role'] == 'assistant' else ' ' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<assistant>' }}{% endif %}"
)


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


def make_tiny(
    environment: Environment, recipe: TinyRecipe, folder: Path, progress: Progress
) -> dict[str, Any]:
    """Write a warm-started model and its tokenizer to `folder`; return the facts about it."""
    source = warm_start_of(environment.type)
    tokenizer = word_tokenizer(source.vocabulary(environment))
    progress(0.0, "drawing demonstrations")
    pairs = list(islice(source.demonstrations(environment, recipe.seed), recipe.steps * recipe.batch))
    ids, labels = encode_pairs(pairs, tokenizer)
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

    def render(messages: Sequence[Message], spoken: Sequence[int] = ()) -> list[int]:
        assert not spoken, "every turn is rendered separately"
        return ids(messages[-1]["content"])

    return evaluate_base(environment, engine.generate, render)


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


def encode_pairs(pairs: list[Demonstration], tokenizer: PreTrainedTokenizerFast) -> tuple[Tensor, Tensor]:
    """Token ids (N, S), right-padded, and labels (N, S) with -100 outside the answers."""
    render = cache(partial(_prompt_text, tokenizer=tokenizer))
    prompt_texts, answer_texts = [render(_turns(pair[0])) for pair in pairs], [pair[1] for pair in pairs]
    encoded = _token_ids([*prompt_texts, *answer_texts], tokenizer)
    prompts, answers = [encoded[text] for text in prompt_texts], [encoded[text] for text in answer_texts]
    eos, pad = int(tokenizer.eos_token_id), int(tokenizer.pad_token_id)
    width = max(len(prompt) + len(answer) + 1 for prompt, answer in zip(prompts, answers, strict=True))
    ids = [[*prompt, *answer, eos] for prompt, answer in zip(prompts, answers, strict=True)]
    labels = [[-100] * len(prompt) + [*answer, eos] for prompt, answer in zip(prompts, answers, strict=True)]
    return (
        torch.tensor([row + [pad] * (width - len(row)) for row in ids]),
        torch.tensor([row + [-100] * (width - len(row)) for row in labels]),
    )


def _turns(observation: str | tuple[Message, ...]) -> tuple[tuple[str, str], ...]:
    """(role, content) of each message: equal conversations are rendered once."""
    if isinstance(observation, str):
        return (("user", observation),)
    return tuple((message["role"], message["content"]) for message in observation)


def _prompt_text(turns: tuple[tuple[str, str], ...], tokenizer: PreTrainedTokenizerFast) -> str:
    messages = [{"role": role, "content": content} for role, content in turns]
    return str(tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False))


def _token_ids(texts: list[str], tokenizer: PreTrainedTokenizerFast) -> dict[str, list[int]]:
    """Token ids by text; equal texts are encoded once."""
    different = list(dict.fromkeys(texts))
    return dict(zip(different, tokenizer(different, add_special_tokens=False)["input_ids"], strict=True))


class TrainingSchedule(Protocol):
    """Steps, batch size and learning rate of supervised training."""

    @property
    def steps(self) -> int:
        """Optimiser steps."""

    @property
    def batch(self) -> int:
        """Rows per step."""

    @property
    def learning_rate(self) -> float:
        """Peak learning rate."""


def train(
    model: PreTrainedModel, ids: Tensor, labels: Tensor, recipe: TrainingSchedule, progress: Progress
) -> float:
    """AdamW with a cosine schedule, one pass; return the mean loss of the last tenth in nats per token.

    Token ids (N, S), right-padded, and labels (N, S), -100 for tokens that are not trained on; N = steps x batch.
    Dropout uses a separate generator, so the same conversations always give the same weights.
    """
    with torch.random.fork_rng(devices=[model.device] if model.device.type == "cuda" else []):
        torch.manual_seed(0)
        return _train(model, ids, labels, recipe, progress)


def _train(
    model: PreTrainedModel, ids: Tensor, labels: Tensor, recipe: TrainingSchedule, progress: Progress
) -> float:
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
            progress(step / recipe.steps, f"warm start: step {step} of {recipe.steps}, loss {losses[-1]:.2f}")
    model.eval()
    last = losses[-max(recipe.steps // 10, 1) :]
    return sum(last) / len(last)

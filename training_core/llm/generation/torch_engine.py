"""The torch engine: batched sampling with a transformers model in this process.

P prompts, R rows (candidates), S padded prompt length, V vocabulary. A group's prompt is prefilled once and its cache
expanded to the group's rows; rows that have ended leave the batch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from training_core.errors import EngineFailure
from training_core.llm.generation.base import SamplingSettings
from training_core.llm.generation.sampling import draw, tempered_log_probs
from training_core.seeding import Words, fold, key_states, uniforms
from training_core.types import Answer, Prompt


@dataclass
class _Rows:
    """Rows still being generated, and what the finished ones said."""

    states: Words
    """Hash state of each live row's noise key."""
    place: list[int]
    """Where each live row goes in the output."""
    tokens: list[list[int]] = field(default_factory=list)
    logprobs: list[list[float]] = field(default_factory=list)


class TorchEngine:
    """Generates with a causal language model. Greedy or sampled, with noise keyed by what is sampled."""

    def __init__(
        self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, *, max_batch: int = 512, version: int = 0
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.max_batch = max_batch
        self.version = version
        self.eos = int(tokenizer.eos_token_id)
        self.pad = int(tokenizer.pad_token_id if tokenizer.pad_token_id is not None else self.eos)

    def load_weights(self, state: Mapping[str, Tensor], version: int) -> None:
        """Copy weights into the model. Raises EngineFailure where names or shapes differ."""
        try:
            self.model.load_state_dict(dict(state), strict=True, assign=False)
        except RuntimeError as error:
            raise EngineFailure(f"weights of version {version} do not fit the model: {error}") from error
        self.version = version

    @torch.no_grad()
    def generate(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        """`count` answers per prompt, in the order given. Raises EngineFailure."""
        self._check(prompts, settings)
        was_training = self.model.training
        self.model.eval()
        answers: list[list[Answer]] = []
        for batch in self._batches(prompts):
            answers.extend(self._generate_batch(batch, settings))
        self.model.train(was_training)
        return answers

    def _check(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> None:
        room = getattr(self.model.config, "max_position_embeddings", None)
        longest = max((len(prompt.token_ids) for prompt in prompts), default=0)
        if any(not prompt.token_ids or prompt.count < 1 for prompt in prompts):
            raise EngineFailure("a prompt is empty or asks for no answers")
        if room is not None and longest + settings.max_tokens > room:
            raise EngineFailure(
                f"a prompt of {longest} tokens and {settings.max_tokens} new ones exceed the model's context of {room}; "
                "shorten the prompt or lower sampling.max_tokens"
            )

    def _batches(self, prompts: Sequence[Prompt]) -> list[list[Prompt]]:
        """Consecutive prompts whose rows fit max_batch; one prompt with more rows makes a batch of its own."""
        batches: list[list[Prompt]] = []
        rows = self.max_batch + 1
        for prompt in prompts:
            if rows + prompt.count > self.max_batch:
                batches.append([])
                rows = 0
            batches[-1].append(prompt)
            rows += prompt.count
        return batches

    def _generate_batch(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> list[list[Answer]]:
        logits, cache, mask = self._prefill(prompts)
        counts = torch.tensor([prompt.count for prompt in prompts], device=logits.device)
        expand = torch.arange(len(prompts), device=logits.device).repeat_interleave(counts)
        if len(expand) > len(prompts):
            cache.batch_select_indices(expand)
            logits, mask = logits[expand], mask[expand]
        rows = _start_rows(prompts)
        texts = self._decode_loop(rows, logits, cache, mask, settings)
        return self._answers(prompts, texts)

    def _prefill(self, prompts: Sequence[Prompt]) -> tuple[Tensor, DynamicCache, Tensor]:
        """Last logits (P, V), the cache, the attention mask (P, S); prompts are padded on the left."""
        device = self.model.device
        width = max(len(prompt.token_ids) for prompt in prompts)
        ids = np.full((len(prompts), width), self.pad, dtype=np.int64)
        mask = np.zeros((len(prompts), width), dtype=np.int64)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt.token_ids) :] = prompt.token_ids
            mask[row, width - len(prompt.token_ids) :] = 1
        mask_tensor = torch.from_numpy(mask).to(device)
        cache = DynamicCache(config=self.model.config)
        output = self.model(
            input_ids=torch.from_numpy(ids).to(device),
            attention_mask=mask_tensor,
            position_ids=(mask_tensor.cumsum(dim=1) - 1).clamp_min(0),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1], cache, mask_tensor

    def _decode_loop(
        self, rows: _Rows, logits: Tensor, cache: DynamicCache, mask: Tensor, settings: SamplingSettings
    ) -> _Rows:
        positions = mask.sum(dim=1)
        for step in range(settings.max_tokens):
            tokens, logprobs = _choose(logits, rows.states, step, settings)
            token_list = tokens.tolist()
            for place, token, logprob in zip(rows.place, token_list, logprobs.tolist(), strict=True):
                rows.tokens[place].append(token)
                rows.logprobs[place].append(logprob)
            if step + 1 == settings.max_tokens:
                break
            alive = tokens != self.eos
            if not bool(alive.any()):
                break
            if not bool(alive.all()):
                keep = alive.nonzero().squeeze(-1)
                cache.batch_select_indices(keep)
                tokens, mask, positions = tokens[keep], mask[keep], positions[keep]
                kept = keep.tolist()
                rows.states = rows.states[kept]
                rows.place = [rows.place[index] for index in kept]
            mask = torch.cat([mask, mask.new_ones(len(mask), 1)], dim=1)
            logits = self._step(tokens, mask, positions, cache)
            positions = positions + 1
        return rows

    def _step(self, tokens: Tensor, mask: Tensor, positions: Tensor, cache: DynamicCache) -> Tensor:
        output: Any = self.model(
            input_ids=tokens.unsqueeze(1),
            attention_mask=mask,
            position_ids=positions.unsqueeze(1),
            past_key_values=cache,
            use_cache=True,
        )
        logits: Tensor = output.logits[:, -1]
        return logits

    def _answers(self, prompts: Sequence[Prompt], rows: _Rows) -> list[list[Answer]]:
        texts = self.tokenizer.batch_decode(rows.tokens, skip_special_tokens=True)
        answers: list[list[Answer]] = []
        row = 0
        for prompt in prompts:
            group = []
            for _ in range(prompt.count):
                tokens = rows.tokens[row]
                group.append(
                    Answer(
                        token_ids=tokens,
                        logprobs=rows.logprobs[row],
                        versions=[self.version] * len(tokens),
                        stop_reason="stop" if tokens[-1] == self.eos else "length",
                        text=texts[row],
                    )
                )
                row += 1
            answers.append(group)
        return answers


def _start_rows(prompts: Sequence[Prompt]) -> _Rows:
    """One row per candidate; its noise key is the prompt's key and the candidate's index."""
    keys = key_states(np.asarray([prompt.key for prompt in prompts], dtype=np.int64))
    counts = [prompt.count for prompt in prompts]
    candidates = np.concatenate([np.arange(count) for count in counts])
    states = fold(np.repeat(keys, counts), candidates)
    total = len(candidates)
    return _Rows(states, list(range(total)), [[] for _ in range(total)], [[] for _ in range(total)])


def _choose(logits: Tensor, states: Words, step: int, settings: SamplingSettings) -> tuple[Tensor, Tensor]:
    """Tokens (R,) and their log-probabilities (R,) under the tempered, truncated distribution."""
    log_probs = tempered_log_probs(logits, settings.temperature, settings.top_k, settings.top_p)
    if settings.greedy:
        tokens = log_probs.argmax(dim=-1)
    else:
        numbers = torch.from_numpy(uniforms(fold(states, step))).to(logits.device)
        tokens = draw(log_probs, numbers)
    return tokens, log_probs.gather(-1, tokens.unsqueeze(-1)).squeeze(-1)

"""Texts in a left-padded batch with the model's own cache, for any architecture that has one.

N nodes, P prompts, W width of the batch, V vocabulary. A node is a text. Each step expands the cache along the new
nodes' parents. A batch is generated to its end before the next one starts.
"""

import inspect
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from training_core.errors import EngineFailure
from training_core.llm.generation.requests import Ints, PromptGroup

_PADDABLE = {"full_attention", "sliding_attention", "chunked_attention"}
_CACHES = ("past_key_values", "cache_params")
"""Names of models' caches."""
_MAX_FINISHED_SHARE = 0.25
"""Share of finished nodes above which the cache is compacted, which copies all of it."""


class PaddedBatch:
    """The nodes of a batch, and the model that extends them."""

    def __init__(self, model: PreTrainedModel, pad: int) -> None:
        self._model = model
        self._pad = pad
        parameters = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in parameters
        self._cache_argument = next((name for name in _CACHES if name in parameters), None)
        self._paddable = (
            self._takes_positions and set(getattr(model.config, "layer_types", None) or ()) <= _PADDABLE
        )
        self._cache: DynamicCache
        self._active: Ints = np.zeros(0, dtype=np.int64)
        """(N,) the nodes' indices among the computed ones."""
        self._positions: Tensor
        """Position of each computed node's next token."""
        self._mask: Tensor | None = None
        """(computed, W) 1 for tokens, 0 for padding; None without padding."""

    def count_admissible(self, waiting: Sequence[PromptGroup]) -> int:
        """Number of waiting groups that can be added now: of one length if the model is exact only without padding."""
        if len(self._active):
            return 0
        if self._paddable:
            return len(waiting)
        return sum(len(group.text) == len(waiting[0].text) for group in waiting)

    def prefill(self, prompts: Sequence[Sequence[int]]) -> Tensor:
        """Add one node per prompt. Returns their logits (P, V)."""
        device = self._model.device
        lengths = [len(prompt) for prompt in prompts]
        width = max(lengths)
        ids = np.full((len(prompts), width), self._pad, dtype=np.int64)
        mask = np.zeros((len(prompts), width), dtype=np.int64)
        for row, prompt in enumerate(prompts):
            ids[row, width - len(prompt) :] = prompt
            mask[row, width - len(prompt) :] = 1
        self._mask = torch.from_numpy(mask).to(device) if min(lengths) < width else None
        self._cache = DynamicCache(config=self._model.config)
        self._positions = torch.tensor(lengths, device=device)
        self._active = np.arange(len(prompts))
        positions = torch.from_numpy((mask.cumsum(axis=1) - 1).clip(min=0)).to(device)
        return self._forward(torch.from_numpy(ids).to(device), positions)

    def decode(self, parents: Ints, tokens: Ints) -> Tensor:
        """Replace all nodes by these children. Returns their logits (N, V)."""
        device = self._model.device
        parents, total = self._active[parents], len(self._positions)
        if not len(parents):
            self._active = parents
            return torch.empty(0, device=device)
        if len(parents) >= (1 - _MAX_FINISHED_SHARE) * total and len(np.unique(parents)) == len(parents):
            next_tokens = np.full(total, self._pad, dtype=np.int64)
            next_tokens[parents] = tokens
            self._active = parents
        else:
            chosen = torch.from_numpy(parents).to(device)
            self._cache.reorder_cache(chosen)  # type: ignore[arg-type]  # any integer tensor does
            self._positions = self._positions[chosen]
            self._mask = self._mask[chosen] if self._mask is not None else None
            self._active, next_tokens = np.arange(len(parents)), tokens
        if self._mask is not None:
            self._mask = torch.cat([self._mask, self._mask.new_ones(len(next_tokens), 1)], dim=1)
        logits = self._forward(
            torch.from_numpy(next_tokens).to(device).unsqueeze(1), self._positions.unsqueeze(1)
        )
        self._positions = self._positions + 1
        return logits[torch.from_numpy(self._active).to(device)]

    def _forward(self, ids: Tensor, positions: Tensor) -> Tensor:
        if self._cache_argument is None:
            name = type(self._model).__name__
            raise EngineFailure(
                f"{name} supports no cache; the torch engine cannot generate with it, so use "
                "another model or engine"
            )
        inputs: dict[str, Any] = {"input_ids": ids, self._cache_argument: self._cache, "use_cache": True}
        if self._takes_positions:
            inputs["position_ids"] = positions
        logits: Tensor = self._model(**inputs, attention_mask=self._mask, logits_to_keep=1).logits
        return logits[:, -1]

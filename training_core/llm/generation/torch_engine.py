"""The torch engine: sampling with a transformers model in this process.

N nodes, C candidates, P prompts, V vocabulary. A node is a prompt plus generated tokens: candidates with the same tokens
after the same prompt share one node, so a prompt is computed once for all its candidates, which separate only where their
tokens differ. A long common prefix of different prompts is also computed once. Finished candidates are replaced by waiting
ones.

With static steps the host does not wait between two of them: the next step starts with tokens that are only on the device,
and the host reads them, and prepares the step after it, while that one runs. A candidate's end is therefore known a step
late, its last node is computed in vain, and candidates with equal tokens have a node each.

A model that does not support prefix trees generates batch by batch, with its own cache, in left-padded batches of width W.
"""

import inspect
import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from training_core.errors import EngineFailure
from training_core.llm.generation.base import Interrupted, SamplingSettings
from training_core.llm.generation.engine_config import Auto, Torch
from training_core.llm.generation.grammars import Grammars, GrammarState, grammar_spans, model_grammars
from training_core.llm.generation.prefix_cache import CachedPrefix, ConversationCache, shared_prefixes
from training_core.llm.generation.prefix_tree import PrefixTreeStore, bucket, supports_prefix_tree
from training_core.llm.generation.prompt_checks import check_prompts, context_length
from training_core.llm.generation.requests import Candidates, Ints, PromptGroup, make_prompt_groups
from training_core.llm.generation.sampling import draw, tempered_log_probs
from training_core.llm.generation.stop_words import StopWords, end_tokens
from training_core.llm.models.evaluation import evaluation_mode
from training_core.llm.models.flops import shape_of
from training_core.llm.models.lora import load_trained_weights
from training_core.llm.models.transfers import Reading, free_memory, to_device
from training_core.types import Answer, Prompt

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
                f"{name} supports no cache; the torch engine cannot generate with it",
                remedy="use another model or engine",
            )
        inputs: dict[str, Any] = {"input_ids": ids, self._cache_argument: self._cache, "use_cache": True}
        if self._takes_positions:
            inputs["position_ids"] = positions
        logits: Tensor = self._model(**inputs, attention_mask=self._mask, logits_to_keep=1).logits
        return logits[:, -1]


MIB = 2**20
_START_SHARE = 4
"""Waiting candidates start when this share of the slots is free, because each start costs a pass."""


_RESERVED_SHARE, _RESERVED_ON_CPU = 4, 64 * MIB
"""Share of a GPU's free memory, and bytes on the CPU, up to which a store with static steps is allocated at once."""


class _NodeStore(Protocol):
    """Storage of nodes: a PrefixTreeStore, or batch by batch if the model does not support it."""

    def count_admissible(self, waiting: Sequence[PromptGroup]) -> int: ...

    def prefill(self, prompts: Sequence[Sequence[int]]) -> Tensor: ...

    def decode(self, parents: Ints, tokens: Ints) -> Tensor: ...


@dataclass
class _Call:
    """One call of `generate`."""

    candidates: Candidates
    settings: SamplingSettings
    words: StopWords
    interrupted: Interrupted
    states: dict[int, GrammarState]
    """By candidate, if its prompt has a grammar."""


@dataclass(frozen=True)
class _Draw:
    """The next tokens of the live candidates."""

    tokens: Tensor
    """(C,) on the device."""
    reading: Reading
    """(2, C) the same, and their log-probabilities."""
    vocabulary: int


class TorchEngine:
    """Generates with a causal language model. Greedy or sampled, with noise keyed by the sampled position.

    Without `share_prefix` every candidate computes its own prompt: slower, for comparison. `static`: steps of fixed
    shapes, with CUDA graphs if the model is on a GPU; None: only on a GPU.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_batch: int = 512,
        version: int = 0,
        share_prefix: bool = True,
        cache_bytes: int = 2**28,
        static: bool | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.max_batch = max_batch
        self.version = version
        self.share_prefix = share_prefix
        self.stops: Ints = np.asarray(end_tokens(tokenizer, model), dtype=np.int64)
        self.pad = int(
            tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        )
        self.tree_support: bool | None = None
        """Whether the model supports prefix trees; None before the trial."""
        self.fused = False
        """Whether fused layers are used (models/decoder.py); determined by the same trial."""
        self.static = model.device.type == "cuda" if static is None else static
        self._idle_stores: list[PrefixTreeStore] = []
        """Unused stores with static steps, whose buffers and graphs are reused."""
        self._grammars: Grammars | None = None
        self.conversations = ConversationCache(cache_bytes)
        """Cached conversations for prompts with a request id, if the model supports prefix trees."""

    def load_weights(self, state: Mapping[str, Tensor], version: int) -> None:
        """Copy weights into the model. Raises EngineFailure if names or shapes differ."""
        try:
            load_trained_weights(self.model, state)
        except RuntimeError as error:
            raise EngineFailure(f"weights of version {version} do not fit the model: {error}") from error
        self.conversations.clear()
        self.version = version

    def release_stores(self) -> None:
        """Release the device's memory of keys and values, with its graphs. The next call allocates and captures again."""
        self._idle_stores = []
        self.conversations.clear()

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None = None
    ) -> list[list[Answer]]:
        """`count` answers per prompt, in the given order.

        An answer ends with a stop token (the tokenizer's end-of-text token, or one of the model's generation config),
        which is part of it, with a stop string, after max_tokens, at the end of the model's context, or when it is
        interrupted. Raises EngineFailure; PromptRefused if a prompt is invalid.
        """
        limits = check_prompts(self.model, prompts, settings, context_length(self.model))
        if not prompts:
            return []
        with evaluation_mode(self.model):
            words = StopWords(self.tokenizer, settings.stop, self.stops.tolist())
            candidates = Candidates(prompts, limits)
            call = _Call(candidates, settings, words, interrupted or _never, self._grammar_states(candidates))
            return self._generate(prompts, call)

    def _generate(self, prompts: Sequence[Prompt], call: _Call) -> list[list[Answer]]:
        groups = make_prompt_groups(
            prompts, self.max_batch, call.settings.max_tokens, shared=self.share_prefix
        )
        self.conversations.use_version(self.version)
        groups = [self._with_cached_prefix(group, call.candidates) for group in groups]
        self._decode_all(self._with_shared_prefixes(groups) if self.share_prefix else groups, call)
        return self._collect(prompts, call)

    def _grammar_states(self, candidates: Candidates) -> dict[int, GrammarState]:
        """The place in its grammar of each candidate that has one, after the tokens from before a continuation."""
        constrained = {number: prompt for number, prompt in enumerate(candidates.prompts) if prompt.grammar}
        if not constrained:
            return {}
        self._grammars = self._grammars or model_grammars(self.model, self.tokenizer)
        return {
            number: self._grammars.follow(
                prompt.grammar, prompt.token_ids[len(prompt.token_ids) - prompt.offset :]
            )
            for number, prompt in constrained.items()
        }

    def _supports_trees(self) -> bool:
        """Whether the model supports prefix trees."""
        if self.tree_support is None:
            self.fused = supports_prefix_tree(self.model, fused=True)
            self.tree_support = self.fused or supports_prefix_tree(self.model)
        return self.tree_support

    def _with_shared_prefixes(self, groups: list[PromptGroup]) -> list[PromptGroup]:
        """The groups, with each common prefix of several prompts computed once."""
        shared = shared_prefixes(group.text for group in groups if group.cached_prefix is None)
        if not shared or not self._supports_trees():
            return groups
        prefixes = sorted(set(shared.values()), key=len)
        store = PrefixTreeStore(self.model, len(prefixes), fused=self.fused)
        store.prefill(prefixes)
        cached = {
            prefix: CachedPrefix(prefix, store.key_values(node)) for node, prefix in enumerate(prefixes)
        }
        return [
            replace(group, cached_prefix=cached[shared[group.text]])
            if group.cached_prefix is None and group.text in shared
            else group
            for group in groups
        ]

    def _make_store(self, groups: Sequence[PromptGroup], candidates: Candidates) -> _NodeStore:
        if not self._supports_trees():
            return PaddedBatch(self.model, self.pad)
        largest = max(len(group.candidates) for group in groups)
        rows = min(len(groups), 2 * self.max_batch // largest)
        if not self.static:
            return PrefixTreeStore(self.model, rows, fused=self.fused)
        store = self._idle_stores.pop() if self._idle_stores else None
        if store is None or store.rows < rows:
            store = PrefixTreeStore(self.model, bucket(rows), static=True, fused=self.fused)
        most = max(len(group.text) + candidates.most_tokens(group.candidates) for group in groups)
        store.reserve(min(most, self._columns_in_reserve(store.rows)))
        return store

    def _columns_in_reserve(self, rows: int) -> int:
        """Columns of a store that may be allocated before they are needed."""
        shape = shape_of(self.model.config)
        if shape is None:
            return 0
        numbers = 2 * shape.layers * shape.key_value_heads * shape.head_size * (rows + 1)
        size = _RESERVED_ON_CPU
        if self.model.device.type == "cuda":
            size = free_memory(self.model.device) // _RESERVED_SHARE
        return size // (numbers * self.model.dtype.itemsize)

    def _decode_all(self, groups: Sequence[PromptGroup], call: _Call) -> None:
        """Generate all candidates, at most max_batch at the same time."""
        candidates, waiting = call.candidates, deque(groups)
        store = self._make_store(groups, candidates)
        logits, nodes = torch.empty(0, device=self.model.device), np.zeros(0, dtype=np.int64)
        while (waiting or candidates.active.size) and not call.interrupted():
            if admitted := self._admit(waiting, store, candidates.active.size):
                sizes = [len(group.candidates) for group in admitted]
                nodes = np.append(nodes, np.repeat(len(logits) + np.arange(len(admitted)), sizes))
                candidates.activate(np.concatenate([group.candidates for group in admitted]))
                logits = torch.cat([logits, _prefill(store, admitted)])
            draw = self._sample(_allowed(logits, nodes, call), nodes, candidates, call.settings)
            if isinstance(store, PrefixTreeStore) and store.steps is not None:
                logits, nodes = self._decode_then_read(store, nodes, draw, call)
            else:
                logits, nodes = self._read_then_decode(store, nodes, draw, call)
        self._cache_texts(store, candidates.active, nodes, candidates)
        if isinstance(store, PrefixTreeStore) and store.steps is not None:
            store.clear()
            self._idle_stores = [store]

    def _read_then_decode(
        self, store: _NodeStore, nodes: Ints, draw: _Draw, call: _Call
    ) -> tuple[Tensor, Ints]:
        """Logits of the next nodes, and the node (C,) of each live candidate: candidates with equal tokens share one."""
        candidates, active = call.candidates, call.candidates.active
        tokens, logprobs = self._read(draw, call)
        continuing = candidates.append_tokens(tokens, logprobs, self.stops, call.words)
        self._cache_texts(store, active[~continuing], nodes[~continuing], candidates)
        parents, children, nodes = self._children(nodes[continuing], tokens[continuing], draw.vocabulary)
        return store.decode(parents, children), nodes

    def _decode_then_read(
        self, store: PrefixTreeStore, nodes: Ints, draw: _Draw, call: _Call
    ) -> tuple[Tensor, Ints]:
        """The same, with a node for each candidate: the host reads tokens while the device computes their nodes."""
        candidates, active = call.candidates, call.candidates.active
        below = candidates.may_continue()
        self._cache_texts(store, active[~below], nodes[~below], candidates)
        chosen = np.flatnonzero(below)
        tokens = draw.tokens if below.all() else draw.tokens[to_device(chosen, draw.tokens.device)]
        logits = store.decode(nodes[chosen], tokens)
        children = below.cumsum() - 1
        continuing = candidates.append_tokens(*self._read(draw, call), self.stops, call.words)
        ended = below & ~continuing
        self._cache_texts(store, active[ended], children[ended], candidates)
        nodes = children[continuing]
        return (
            (logits, nodes) if len(nodes) else (store.decode(nodes, nodes), nodes)
        )  # without nodes, rows are free

    def _with_cached_prefix(self, group: PromptGroup, candidates: Candidates) -> PromptGroup:
        """The group, with the cached prefix of its text."""
        names = [candidates.names[number] for number in group.candidates if candidates.names[number][0]]
        return replace(group, cached_prefix=self.conversations.lookup(names, group.text)) if names else group

    def _cache_texts(self, store: _NodeStore, numbers: Ints, nodes: Ints, candidates: Candidates) -> None:
        """Cache the texts of these candidates, which end at these nodes."""
        if not self.conversations.limit or not isinstance(store, PrefixTreeStore):
            return
        for number, node in zip(numbers.tolist(), nodes.tolist(), strict=True):
            if candidates.names[number][0]:
                self.conversations.store(
                    candidates.names[number], candidates.text(number), partial(store.key_values, node)
                )

    def _admit(self, waiting: deque[PromptGroup], store: _NodeStore, active: int) -> list[PromptGroup]:
        """Remove the groups to start now from the waiting ones and return them."""
        free = self.max_batch - active
        needed = sum(len(group.candidates) for group in waiting)
        admitted: list[PromptGroup] = []
        if active and free < min(needed, self.max_batch // _START_SHARE):
            return admitted
        for _ in range(store.count_admissible(waiting)):
            if len(waiting[0].candidates) > free:
                break
            admitted.append(waiting.popleft())
            free -= len(admitted[-1].candidates)
        return sorted(admitted, key=lambda group: group.cached_prefix is not None)

    def _children(self, nodes: Ints, tokens: Ints, vocabulary: int) -> tuple[Ints, Ints, Ints]:
        """Every distinct (node, token) becomes a node: parents and tokens (N,), and each candidate's index among them."""
        if not self.share_prefix:
            return nodes, tokens, np.arange(len(nodes))
        pairs, child_nodes = np.unique(nodes * vocabulary + tokens, return_inverse=True)
        return *np.divmod(pairs, vocabulary), child_nodes

    def _sample(
        self, logits: Tensor, nodes: Ints, candidates: Candidates, settings: SamplingSettings
    ) -> _Draw:
        """The live candidates' next tokens under the tempered, truncated distribution."""
        log_probs = tempered_log_probs(logits, settings.temperature, settings.top_k, settings.top_p)
        rows = to_device(nodes, logits.device)
        if settings.greedy:
            tokens = log_probs.argmax(dim=-1)[rows]
        else:
            tokens = draw(log_probs, rows, to_device(candidates.uniforms(), logits.device))
        numbers = torch.stack([tokens.double(), log_probs[rows, tokens].double()])
        return _Draw(tokens, Reading(numbers), log_probs.shape[-1])

    def _read(self, draw: _Draw, call: _Call) -> tuple[Ints, np.ndarray[Any, np.dtype[np.float64]]]:
        """Tokens and log-probabilities (C,), which grammars follow. Raises EngineFailure for numbers that are not finite."""
        tokens, logprobs = draw.reading.wait()
        if not np.isfinite(logprobs).all():
            raise EngineFailure(
                f"the model's weights (version {self.version}) give probabilities that are not finite",
                remedy="resume from an earlier checkpoint with a lower learning rate",
            )
        if call.states:
            for number, token in zip(call.candidates.active.tolist(), tokens.tolist(), strict=True):
                if number in call.states:
                    call.states[number].add(int(token))
        return tokens.astype(np.int64), logprobs

    def _collect(self, prompts: Sequence[Prompt], call: _Call) -> list[list[Answer]]:
        """Candidates as answers, each text decoded once. The text includes tokens from before a continuation."""
        results = list(call.candidates.results())
        distinct = list({tuple(tokens): None for tokens, *_ in results})
        texts = dict(zip(distinct, call.words.answer_texts(distinct), strict=True))
        answers = (
            Answer(
                tokens[offset:],
                logprobs[offset:],
                [self.version] * (len(tokens) - offset),
                reason,
                texts[tuple(tokens)],
                grammars=grammar_spans(prompt.grammar, len(tokens) - offset),
            )
            for prompt, (tokens, logprobs, offset, reason) in zip(
                call.candidates.prompts, results, strict=True
            )
        )
        return [list(itertools.islice(answers, prompt.count)) for prompt in prompts]


def _allowed(logits: Tensor, nodes: Ints, call: _Call) -> Tensor:
    """Logits (N, V) in which tokens that grammars forbid have no probability. Candidates of a node are at the same place."""
    if not call.states:
        return logits
    holders = {int(node): number for node, number in zip(nodes, call.candidates.active.tolist(), strict=True)}
    masked = {node: call.states[number].mask() for node, number in holders.items() if number in call.states}
    if not masked:
        return logits
    rows = to_device(np.array(list(masked)), logits.device)
    allowed = to_device(np.stack(list(masked.values())), logits.device)
    return logits.index_copy(0, rows, logits[rows].masked_fill(~allowed, float("-inf")))


def _prefill(store: _NodeStore, groups: Sequence[PromptGroup]) -> Tensor:
    """Logits of new nodes (len(groups), V). Groups with a cached prefix come last."""
    uncached = [group.text for group in groups if group.cached_prefix is None]
    cached = [(group.text, group.cached_prefix) for group in groups if group.cached_prefix is not None]
    parts = [store.prefill(uncached)] if uncached else []
    if cached and isinstance(store, PrefixTreeStore):
        parts.append(store.prefill_cached(cached))
    return torch.cat(parts)


def make_torch_engine(
    settings: Torch, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> TorchEngine:
    """The engine of a config section."""
    static = {"auto": None, "on": True, "off": False}[settings.static_shapes]
    cache_bytes = settings.conversation_cache * MIB
    return TorchEngine(model, tokenizer, max_batch=settings.sequences, cache_bytes=cache_bytes, static=static)


def make_undecided_engine(
    settings: Auto, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase
) -> TorchEngine:
    """The engine of an "auto" that no attempt has decided (training_core/config/engines.py)."""
    return make_torch_engine(Torch(max_batch=settings.max_batch), model, tokenizer)


def _never() -> bool:
    return False

"""The torch engine: sampling with a transformers model in this process.

N nodes, C candidates, V vocabulary. A node is a prompt plus generated tokens: candidates with the same tokens after
the same prompt share one node, so a prompt is computed once for all its candidates, which separate only where their
tokens differ. A long common prefix of different prompts is also computed once. Finished candidates are replaced by
waiting ones.
"""

import itertools
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from training_core.errors import EngineFailure
from training_core.llm.generation.base import Interrupted, SamplingSettings
from training_core.llm.generation.padded import PaddedBatch
from training_core.llm.generation.prefix_cache import ConversationCache, Kept
from training_core.llm.generation.prefix_tree import Forest, can_grow
from training_core.llm.generation.prompt_checks import check_prompts, context_of
from training_core.llm.generation.requests import Candidates, Ints, Plot, make_plots
from training_core.llm.generation.sampling import draw, tempered_log_probs
from training_core.llm.generation.static_steps import bucket
from training_core.llm.generation.stop_words import StopWords, texts_of
from training_core.llm.models.adapters import load_trained_weights
from training_core.llm.prefixes import shared_prefixes
from training_core.types import Answer, Prompt

_LUMP = 4
"""Waiting candidates start when this share of the slots is free, because each start costs a pass."""


class _Ground(Protocol):
    """Storage of nodes: a Forest, or batch by batch if the model does not support it."""

    def room(self, waiting: Sequence[Plot]) -> int: ...

    def plant(self, prompts: Sequence[Sequence[int]]) -> Tensor: ...

    def grow(self, parents: Ints, tokens: Ints) -> Tensor: ...


@dataclass
class _Call:
    """One call of `generate`."""

    candidates: Candidates
    settings: SamplingSettings
    words: StopWords
    interrupted: Interrupted


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
        kept_bytes: int = 2**28,
        static: bool | None = None,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.max_batch = max_batch
        self.version = version
        self.share_prefix = share_prefix
        self.stops = _stop_tokens(model, tokenizer)
        self.pad = int(
            tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
        )
        self.forests: bool | None = None
        """Whether the model supports a forest; None before the trial."""
        self.static = model.device.type == "cuda" if static is None else static
        self._felled: list[Forest] = []
        """Unused forests with static steps, whose buffers and graphs are reused."""
        self.conversations = ConversationCache(kept_bytes)
        """Cached conversations for prompts with a request id, if the model supports a forest."""

    def load_weights(self, state: Mapping[str, Tensor], version: int) -> None:
        """Copy weights into the model. Raises EngineFailure if names or shapes differ."""
        try:
            load_trained_weights(self.model, state)
        except RuntimeError as error:
            raise EngineFailure(f"weights of version {version} do not fit the model: {error}") from error
        self.conversations.forget()
        self.version = version

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None = None
    ) -> list[list[Answer]]:
        """`count` answers per prompt, in the given order.

        An answer ends with a stop token (the tokenizer's end-of-text token, or one of the model's generation config),
        which is part of it, with a stop string, after max_tokens, or when it is interrupted. Raises EngineFailure;
        PromptRefused if a prompt is invalid.
        """
        check_prompts(self.model, prompts, settings, context_of(self.model))
        if not prompts:
            return []
        was_training = self.model.training
        self.model.eval()
        try:
            return self._generate(prompts, settings, interrupted)
        finally:
            self.model.train(was_training)

    def _generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None
    ) -> list[list[Answer]]:
        words = StopWords(self.tokenizer, settings.stop)
        call = _Call(Candidates(prompts, settings.max_tokens), settings, words, interrupted or _never)
        plots = make_plots(prompts, self.max_batch, settings.max_tokens, shared=self.share_prefix)
        self.conversations.begin(self.version)
        plots = [self._recalled(plot, call.candidates) for plot in plots]
        self._speak(self._with_prefixes(plots) if self.share_prefix else plots, call)
        return self._collect(prompts, call)

    def _grows(self) -> bool:
        """Whether the model supports a forest."""
        if self.forests is None:
            self.forests = can_grow(self.model)
        return self.forests

    def _with_prefixes(self, plots: list[Plot]) -> list[Plot]:
        """The plots, with each common prefix of several prompts computed once."""
        shared = shared_prefixes(plot.text for plot in plots if plot.known is None)
        if not shared or not self._grows():
            return plots
        prefixes = sorted(set(shared.values()), key=len)
        forest = Forest(self.model, len(prefixes))
        forest.plant(prefixes)
        kept = {prefix: Kept(prefix, forest.path(node)) for node, prefix in enumerate(prefixes)}
        return [
            replace(plot, known=kept[shared[plot.text]])
            if plot.known is None and plot.text in shared
            else plot
            for plot in plots
        ]

    def _ground(self, plots: Sequence[Plot]) -> _Ground:
        if not self._grows():
            return PaddedBatch(self.model, self.pad)
        largest = max(len(plot.candidates) for plot in plots)
        rows = min(len(plots), 2 * self.max_batch // largest)
        if not self.static:
            return Forest(self.model, rows)
        found = self._felled.pop() if self._felled else None
        return found if found and found.rows >= rows else Forest(self.model, bucket(rows), static=True)

    def _speak(self, plots: Sequence[Plot], call: _Call) -> None:
        """Generate all candidates, at most max_batch at the same time."""
        ground, waiting, candidates = self._ground(plots), deque(plots), call.candidates
        logits, place = torch.empty(0, device=self.model.device), np.zeros(0, dtype=np.int64)
        while (waiting or candidates.live.size) and not call.interrupted():
            if planted := self._next(waiting, ground, candidates.live.size):
                sizes = [len(plot.candidates) for plot in planted]
                place = np.append(place, np.repeat(len(logits) + np.arange(len(planted)), sizes))
                candidates.begin(np.concatenate([plot.candidates for plot in planted]))
                logits = torch.cat([logits, _plant(ground, planted)])
            tokens, logprobs = self._choose(logits, place, candidates, call.settings)
            speaking = candidates.live
            on = candidates.say(tokens, logprobs, self.stops, call.words)
            self._keep(ground, speaking[~on], place[~on], candidates)
            parents, said, place = self._children(place[on], tokens[on], logits.shape[-1])
            logits = ground.grow(parents, said)
        self._keep(ground, candidates.live, place, candidates)
        if isinstance(ground, Forest) and ground.steps is not None:
            ground.clear()
            self._felled = [ground]

    def _recalled(self, plot: Plot, candidates: Candidates) -> Plot:
        """The plot, with the cached prefix of its text."""
        names = [candidates.names[number] for number in plot.candidates if candidates.names[number][0]]
        return replace(plot, known=self.conversations.known(names, plot.text)) if names else plot

    def _keep(self, ground: _Ground, numbers: Ints, nodes: Ints, candidates: Candidates) -> None:
        """Cache the texts of these candidates, which end at these nodes."""
        if not self.conversations.limit or not isinstance(ground, Forest):
            return
        for number, node in zip(numbers.tolist(), nodes.tolist(), strict=True):
            if candidates.names[number][0]:
                self.conversations.keep(
                    candidates.names[number], candidates.text(number), partial(ground.path, node)
                )

    def _next(self, waiting: deque[Plot], ground: _Ground, speaking: int) -> list[Plot]:
        """Remove the plots to start now from the waiting ones and return them."""
        free = self.max_batch - speaking
        needed = sum(len(plot.candidates) for plot in waiting)
        planted: list[Plot] = []
        if speaking and free < min(needed, self.max_batch // _LUMP):
            return planted
        for _ in range(ground.room(waiting)):
            if len(waiting[0].candidates) > free:
                break
            planted.append(waiting.popleft())
            free -= len(planted[-1].candidates)
        return sorted(planted, key=lambda plot: plot.known is not None)

    def _children(self, place: Ints, tokens: Ints, vocabulary: int) -> tuple[Ints, Ints, Ints]:
        """Every distinct (node, token) becomes a node: parents and tokens (N,), and each candidate's index among them."""
        if not self.share_prefix:
            return place, tokens, np.arange(len(place))
        pairs, places = np.unique(place * vocabulary + tokens, return_inverse=True)
        return *np.divmod(pairs, vocabulary), places

    def _choose(
        self, logits: Tensor, place: Ints, candidates: Candidates, settings: SamplingSettings
    ) -> tuple[Ints, np.ndarray[Any, np.dtype[np.float64]]]:
        """The live candidates' next tokens and their log-probabilities under the tempered, truncated distribution."""
        log_probs = tempered_log_probs(logits, settings.temperature, settings.top_k, settings.top_p)
        rows = torch.from_numpy(place).to(logits.device)
        if settings.greedy:
            tokens = log_probs.argmax(dim=-1)[rows]
        else:
            tokens = draw(log_probs, rows, torch.from_numpy(candidates.uniforms()).to(logits.device))
        chosen = log_probs[rows, tokens].double().cpu().numpy()
        if not np.isfinite(chosen).all():
            raise EngineFailure(
                f"the model's weights (version {self.version}) give probabilities that are not finite; resume from "
                "an earlier checkpoint with a lower learning rate"
            )
        return tokens.cpu().numpy(), chosen

    def _collect(self, prompts: Sequence[Prompt], call: _Call) -> list[list[Answer]]:
        """Candidates as answers, each text decoded once. The text includes tokens from before a continuation."""
        said = list(call.candidates.said())
        distinct = list({tuple(tokens): None for tokens, *_ in said})
        decoded = texts_of(self.tokenizer, distinct)
        texts = dict(zip(distinct, map(call.words.cut, decoded), strict=True))
        answers = (
            Answer(
                tokens[offset:],
                logprobs[offset:],
                [self.version] * (len(tokens) - offset),
                reason,
                texts[tuple(tokens)],
            )
            for tokens, logprobs, offset, reason in said
        )
        return [list(itertools.islice(answers, prompt.count)) for prompt in prompts]


def _plant(ground: _Ground, plots: Sequence[Plot]) -> Tensor:
    """Logits of new nodes (len(plots), V). Plots with a cached prefix come last."""
    fresh = [plot.text for plot in plots if plot.known is None]
    old = [(plot.text, plot.known) for plot in plots if plot.known is not None]
    parts = [ground.plant(fresh)] if fresh else []
    if old and isinstance(ground, Forest):
        parts.append(ground.plant_known(old))
    return torch.cat(parts)


def _never() -> bool:
    return False


def _stop_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Ints:
    named: Any = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    more = named if isinstance(named, list) else [named] if named is not None else []
    return np.asarray(sorted({int(tokenizer.eos_token_id), *map(int, more)}), dtype=np.int64)

"""The torch engine: batched sampling with a transformers model in this process.

N nodes, C candidates, S padded prompt length, V vocabulary. A node is a prompt and what was said after it: candidates
that have said the same after the same prompt share one node, so a prompt is prefilled once (however many candidates
and prompts of the call share it) and candidates part company only where their tokens differ. Each step expands the
cache along the new nodes' parents; candidates that have ended leave.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from training_core.errors import EngineFailure
from training_core.llm.generation.base import Interrupted, SamplingSettings
from training_core.llm.generation.jobs import Candidates, Ints, Job, by_length, split_jobs
from training_core.llm.generation.sampling import draw, tempered_log_probs
from training_core.llm.generation.stop_words import StopWords
from training_core.llm.models.adapters import load_trained_weights
from training_core.types import Answer, Prompt

_PADDABLE = {"full_attention", "sliding_attention", "chunked_attention"}
_CACHES = ("past_key_values", "cache_params")
"""What models call their cache."""
_WASTE = 0.25
"""Share of dead nodes that is computed along before the cache is compacted, which copies all of it."""


@dataclass
class _Nodes:
    """The distinct texts so far, and the model's view of them."""

    cache: DynamicCache
    logits: Tensor
    """(N, V) that predict each node's next token."""
    positions: Tensor
    """(N,) of each node's next token."""
    mask: Tensor | None
    """(N, S + steps) 1 for tokens, 0 for padding; None where there is no padding."""


class TorchEngine:
    """Generates with a causal language model. Greedy or sampled, with noise keyed by what is sampled.

    With `share_prefix` off every candidate has a row of its own from the first token of its prompt on: slower, for
    comparison.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_batch: int = 512,
        version: int = 0,
        share_prefix: bool = True,
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
        takes = inspect.signature(model.forward).parameters
        self._takes_positions = "position_ids" in takes
        self._cache_argument = next((name for name in _CACHES if name in takes), None)
        self._paddable = (
            self._takes_positions and set(getattr(model.config, "layer_types", None) or ()) <= _PADDABLE
        )

    def load_weights(self, state: Mapping[str, Tensor], version: int) -> None:
        """Copy weights into the model. Raises EngineFailure where names or shapes differ."""
        try:
            load_trained_weights(self.model, state)
        except RuntimeError as error:
            raise EngineFailure(f"weights of version {version} do not fit the model: {error}") from error
        self.version = version

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None = None
    ) -> list[list[Answer]]:
        """`count` answers per prompt, in the order given.

        An answer ends with a stop token (the tokenizer's end-of-text token, or one of the model's generation config),
        which is part of it, with a stop text, after max_tokens, or where it is interrupted. Raises EngineFailure.
        """
        self._check(prompts, settings)
        if was_training := self.model.training:
            self.model.eval()
        words = StopWords(self.tokenizer, settings.stop)
        answers: list[list[Answer]] = [[] for _ in prompts]
        for jobs in split_jobs(prompts, self.max_batch):
            for batch in [jobs] if self._paddable else by_length(jobs):
                candidates = Candidates(batch, settings.max_tokens)
                if not (interrupted and interrupted()):
                    self._speak(batch, candidates, settings, words, interrupted)
                self._collect(batch, candidates, words, answers)
        if was_training:
            self.model.train()
        return answers

    def _check(self, prompts: Sequence[Prompt], settings: SamplingSettings) -> None:
        room = getattr(self.model.config, "max_position_embeddings", None)
        longest = max((len(prompt.token_ids) - prompt.offset for prompt in prompts), default=0)
        if any(not prompt.token_ids or prompt.count < 1 for prompt in prompts):
            raise EngineFailure("a prompt is empty or asks for no answers")
        if any(prompt.offset >= settings.max_tokens for prompt in prompts):
            raise EngineFailure("an answer that goes on has said max_tokens already: it has ended")
        if room is not None and longest + settings.max_tokens > room:
            raise EngineFailure(
                f"a prompt of {longest} tokens and {settings.max_tokens} new ones exceed the model's context of {room}; "
                "shorten the prompt or lower sampling.max_tokens"
            )

    def _speak(
        self,
        jobs: Sequence[Job],
        candidates: Candidates,
        settings: SamplingSettings,
        words: StopWords,
        interrupted: Interrupted | None,
    ) -> None:
        """Let all candidates of these jobs speak, from their next token to the last."""
        texts, place = self._distinct(jobs)
        nodes = self._prefill(texts)
        while True:
            tokens, logprobs = self._choose(nodes.logits, place, candidates, settings)
            on = candidates.say(tokens, logprobs, self.stops, words)
            if not on.any() or (interrupted and interrupted()):
                break
            place = self._advance(nodes, place[on], tokens[on])

    def _distinct(self, jobs: Sequence[Job]) -> tuple[list[list[int]], Ints]:
        """The prompts to prefill, and each candidate's place (C,) among them."""
        counts = [job.count for job in jobs]
        if not self.share_prefix:
            return [job.prompt.token_ids for job in jobs for _ in range(job.count)], np.arange(sum(counts))
        known: dict[tuple[int, ...], int] = {}
        places = [known.setdefault(tuple(job.prompt.token_ids), len(known)) for job in jobs]
        return [list(text) for text in known], np.repeat(np.asarray(places, dtype=np.int64), counts)

    def _prefill(self, texts: Sequence[list[int]]) -> _Nodes:
        """One node per prompt, padded on the left."""
        device = self.model.device
        lengths = [len(text) for text in texts]
        width = max(lengths)
        ids = np.full((len(texts), width), self.pad, dtype=np.int64)
        mask = np.zeros((len(texts), width), dtype=np.int64)
        for row, text in enumerate(texts):
            ids[row, width - len(text) :] = text
            mask[row, width - len(text) :] = 1
        seen = torch.from_numpy(mask).to(device) if min(lengths) < width else None
        nodes = _Nodes(
            DynamicCache(config=self.model.config), torch.empty(0), torch.tensor(lengths, device=device), seen
        )
        spots = torch.from_numpy((mask.cumsum(axis=1) - 1).clip(min=0)).to(device)
        nodes.logits = self._forward(torch.from_numpy(ids).to(device), spots, nodes)
        return nodes

    def _advance(self, nodes: _Nodes, place: Ints, tokens: Ints) -> Ints:
        """Every distinct (node, token) becomes a node of its own; returns the candidates' new places (C,)."""
        device = self.model.device
        total, vocabulary = nodes.logits.shape
        if self.share_prefix:
            pairs, place = np.unique(place * vocabulary + tokens, return_inverse=True)
            parents, said = np.divmod(pairs, vocabulary)
        else:
            parents, said, place = place, tokens, np.arange(len(place))
        if len(parents) >= (1 - _WASTE) * total and len(np.unique(parents)) == len(parents):
            everyone = np.full(total, self.pad, dtype=np.int64)
            everyone[parents] = said
            place, said = parents[place], everyone
        else:
            chosen = torch.from_numpy(parents).to(device)
            nodes.cache.reorder_cache(chosen)  # type: ignore[arg-type]  # any integer tensor does
            nodes.positions = nodes.positions[chosen]
            nodes.mask = nodes.mask[chosen] if nodes.mask is not None else None
        if nodes.mask is not None:
            nodes.mask = torch.cat([nodes.mask, nodes.mask.new_ones(len(said), 1)], dim=1)
        nodes.logits = self._forward(
            torch.from_numpy(said).to(device).unsqueeze(1), nodes.positions.unsqueeze(1), nodes
        )
        nodes.positions = nodes.positions + 1
        return place

    def _forward(self, ids: Tensor, positions: Tensor, nodes: _Nodes) -> Tensor:
        if self._cache_argument is None:
            raise EngineFailure(
                f"{type(self.model).__name__} takes no cache; the torch engine cannot generate with it"
            )
        inputs: dict[str, Any] = {"input_ids": ids, self._cache_argument: nodes.cache, "use_cache": True}
        if self._takes_positions:
            inputs["position_ids"] = positions
        logits: Tensor = self.model(**inputs, attention_mask=nodes.mask, logits_to_keep=1).logits
        return logits[:, -1]

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
                f"the model's weights (version {self.version}) give probabilities that are no numbers; "
                "resume from an earlier checkpoint with a lower learning rate"
            )
        return tokens.cpu().numpy(), chosen

    def _collect(
        self, jobs: Sequence[Job], candidates: Candidates, words: StopWords, answers: list[list[Answer]]
    ) -> None:
        """Candidates as answers, each text decoded once. The text is of all that was said, before a continuation too."""
        said = list(candidates.said())
        distinct = list({tuple(tokens): None for tokens, *_ in said})
        decoded = self.tokenizer.batch_decode([list(tokens) for tokens in distinct], skip_special_tokens=True)
        texts = dict(zip(distinct, map(words.cut, decoded), strict=True))
        places = [job.place for job in jobs for _ in range(job.count)]
        for place, (tokens, logprobs, offset, reason) in zip(places, said, strict=True):
            new = tokens[offset:]
            answers[place].append(
                Answer(new, logprobs[offset:], [self.version] * len(new), reason, texts[tuple(tokens)])
            )


def _stop_tokens(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Ints:
    named: Any = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    more = named if isinstance(named, list) else [named] if named is not None else []
    return np.asarray(sorted({int(tokenizer.eos_token_id), *map(int, more)}), dtype=np.int64)

"""The naive engine: one text at a time, without a cache."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from examples.naive.config import Naive
from training_core.llm.generation.base import Interrupted, SamplingSettings
from training_core.llm.generation.prompt_checks import check_prompts, context_length
from training_core.llm.generation.requests import Candidates
from training_core.llm.generation.sampling import draw, tempered_log_probs
from training_core.llm.generation.stop_words import StopWords, decode_texts
from training_core.llm.models.lora import load_trained_weights
from training_core.types import Answer, Prompt


class NaiveEngine:
    """An Engine whose model may be that of a learner in the same process."""

    def __init__(self, settings: Naive, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> None:
        self.settings, self.model, self.tokenizer, self.version = settings, model, tokenizer, 0
        self.stops = np.array([tokenizer.eos_token_id])

    def load_weights(self, state: Mapping[str, Tensor], version: int) -> None:
        load_trained_weights(self.model, state)
        self.version = version

    @torch.no_grad()
    def generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None = None
    ) -> list[list[Answer]]:
        limits = check_prompts(self.model, prompts, settings, context_length(self.model))
        if not prompts:
            return []
        candidates = Candidates(prompts, limits)
        words = StopWords(self.tokenizer, settings.stop)
        count, most = len(candidates.prompts), self.settings.sequences
        for first in range(0, count, most):
            candidates.activate(np.arange(first, min(first + most, count)))
            while len(candidates.active) and not (interrupted and interrupted()):
                tokens, logprobs = self._sample(candidates, settings)
                candidates.append_tokens(tokens.numpy(), logprobs.numpy(), self.stops, words)
        answers = self._answers(candidates, words)
        return [list(islice(answers, prompt.count)) for prompt in prompts]

    def _sample(self, candidates: Candidates, settings: SamplingSettings) -> tuple[Tensor, Tensor]:
        """The next tokens of the active candidates, and their logprobs. Noise depends on the candidate alone."""
        texts = [torch.tensor([candidates.text(number)]) for number in candidates.active]
        logits = torch.stack([self.model(input_ids=text).logits[0, -1] for text in texts])
        log_probs = tempered_log_probs(logits, settings.temperature, settings.top_k, settings.top_p)
        rows = torch.arange(len(log_probs))
        drawn = draw(log_probs, rows, torch.from_numpy(candidates.uniforms()))
        tokens = log_probs.argmax(dim=-1) if settings.greedy else drawn
        return tokens, log_probs[rows, tokens].double()

    def _answers(self, candidates: Candidates, words: StopWords) -> Iterator[Answer]:
        for tokens, logprobs, offset, reason in candidates.results():
            text = words.cut(decode_texts(self.tokenizer, [tokens])[0])
            versions = [self.version] * (len(tokens) - offset)
            yield Answer(tokens[offset:], logprobs[offset:], versions, reason, text)

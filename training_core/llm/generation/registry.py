"""Engines by the `type` of a policy's engine section."""

from collections.abc import Callable

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from training_core.config.models import Policy
from training_core.llm.generation.base import Engine
from training_core.llm.generation.torch_engine import TorchEngine


def _torch(policy: Policy, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Engine:
    return TorchEngine(model, tokenizer, max_batch=policy.engine.max_batch)


ENGINES: dict[str, Callable[[Policy, PreTrainedModel, PreTrainedTokenizerBase], Engine]] = {"torch": _torch}
"""type -> (policy, model, tokenizer) -> engine. The model may be shared with a learner in the same process."""


def make_engine(policy: Policy, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Engine:
    """The engine that a policy's config asks for."""
    return ENGINES[policy.engine.type](policy, model, tokenizer)

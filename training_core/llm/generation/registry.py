"""Engines by the `type` of a policy's engine section."""

from collections.abc import Callable

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from training_core.config.engines import OpenAi, Torch, Vllm
from training_core.config.models import Policy
from training_core.llm.generation.base import Engine
from training_core.llm.generation.torch_engine import TorchEngine

MIB = 2**20
EngineFactory = Callable[[Policy, PreTrainedModel, PreTrainedTokenizerBase], Engine]


def _torch(policy: Policy, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Engine:
    assert isinstance(policy.engine, Torch)
    cache_bytes = policy.engine.conversation_cache * MIB
    static = {"auto": None, "on": True, "off": False}[policy.engine.static_shapes]
    return TorchEngine(
        model, tokenizer, max_batch=policy.engine.max_batch, cache_bytes=cache_bytes, static=static
    )


def _vllm(policy: Policy, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Engine:
    from training_core.llm.generation.vllm_engine import VllmEngine  # imported on use: it is an extra

    assert isinstance(policy.engine, Vllm)
    return VllmEngine(policy.engine, model, tokenizer)


def _openai(policy: Policy, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Engine:
    from training_core.llm.generation.openai_engine import OpenAiEngine  # the torch engine needs no HTTP

    assert isinstance(policy.engine, OpenAi)
    return OpenAiEngine(policy.engine, model, tokenizer)


ENGINES: dict[str, EngineFactory] = {"torch": _torch, "vllm": _vllm, "openai": _openai}
"""type -> (policy, model, tokenizer) -> engine. The model may be shared with a learner in the same process (torch),
or receives weights before they are sent to the engine (the others).
"""


def make_engine(policy: Policy, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> Engine:
    """The engine for a policy's config."""
    return ENGINES[policy.engine.type](policy, model, tokenizer)

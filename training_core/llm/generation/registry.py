"""Engines by the `type` of their config: one line each.

Only configs are imported here. An engine's module is imported when it is first used.
"""

from dataclasses import dataclass

from training_core.llm.generation.engine_config import Auto, EngineSection, OpenAi, Torch, Vllm


@dataclass(frozen=True)
class EngineKind:
    """One type of engine."""

    config: type[EngineSection]
    make: str
    """"module:Name" in this package: (config section, model, tokenizer) -> engine. The model may be shared with a
    learner in the same process (torch), or receives weights before they are sent to the engine (the others). An engine whose
    `weights` are "copied" takes the option `sleeps`.
    """
    check: str = ""
    """"module:function" in this package: config section -> a sentence about what the engine needs and was found. It raises
    EngineFailure if that is missing. Empty: the engine needs nothing else.
    """
    grammars: bool = True
    """Whether it samples under a grammar (grammars.py)."""


ENGINES: dict[str, EngineKind] = {
    "torch": EngineKind(Torch, "torch_engine:make_torch_engine"),
    "auto": EngineKind(Auto, "torch_engine:make_undecided_engine"),
    "vllm": EngineKind(Vllm, "vllm_engine:VllmEngine", "vllm_engine:check_vllm"),
    "openai": EngineKind(OpenAi, "openai_engine:OpenAiEngine", "openai_engine:check_servers", grammars=False),
}
"""Engines by type, in the order of the pages."""

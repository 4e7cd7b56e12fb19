"""Engines by the `type` of their config: one folder and one line each.

Only the `config` modules are imported here. The rest of an engine is imported when it is first used.
"""

from dataclasses import dataclass

from training_core.llm.generation.engine_config import EngineSection
from training_core.llm.generation.openai.config import OpenAi
from training_core.llm.generation.torch.config import Torch
from training_core.llm.generation.vllm.config import Vllm


@dataclass(frozen=True)
class EngineKind:
    """One type of engine."""

    config: type[EngineSection]
    make: str
    """"folder.module:Name" in this package: (config section, model, tokenizer) -> engine. The model may be shared with a
    learner in the same process (torch), or receives weights before they are sent to the engine (the others). An engine whose
    `weights` are "copied" takes the option `sleeps`.
    """
    check: str = ""
    """"folder.module:function" in this package: config section -> a sentence about what the engine needs and was found. It raises
    EngineFailure if that is missing. Empty: the engine needs nothing else.
    """


ENGINES: dict[str, EngineKind] = {
    "torch": EngineKind(Torch, "torch.engine:make_torch_engine"),
    "vllm": EngineKind(Vllm, "vllm.engine:VllmEngine", "vllm.engine:check_vllm"),
    "openai": EngineKind(OpenAi, "openai.engine:OpenAiEngine", "openai.engine:check_servers"),
}
"""Engines by type, in the order of the pages."""

"""The engine of a policy's config."""

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from training_core.importing import resolve
from training_core.llm.generation.base import Engine
from training_core.llm.generation.engine_config import EngineSection
from training_core.llm.generation.registry import ENGINES

FOLDER = __name__.rpartition(".")[0]


def make_engine(
    section: EngineSection,
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    *,
    sleeps: bool = False,
) -> Engine:
    """The engine of this config section. `sleeps`: it is a SleepingEngine, and `sleep` must release its memory."""
    options = {"sleeps": True} if sleeps else {}
    engine: Engine = resolve(f"{FOLDER}.{ENGINES[section.type].make}")(section, model, tokenizer, **options)
    return engine

"""The short job that makes or converts the base models of a config before its first run."""

from typing import Any

from training_core.config.run import RunConfig
from training_core.llm.base_models.registry import resolve_model
from training_core.llm.base_models.tiny import read_facts
from training_core.llm.models.loading import load_tokenizer
from workers.jobs.context import JobContext


def prepare(context: JobContext[RunConfig]) -> dict[str, Any]:
    """Result: `models`, one entry per base model with name, source and, where Troupe made it, facts about it."""
    config = context.config
    names = list(dict.fromkeys(config.policies[policy].model for policy in config.used_policies))
    models = []
    for index, name in enumerate(names):

        def report(done: float, text: str, index: int = index, name: str = name) -> None:
            context.progress((index + done) / len(names), f"{name}: {text}")

        source = resolve_model(name, config.environment, context.home, report)
        vocabulary = len(load_tokenizer(source))
        models.append({"name": name, "vocabulary": vocabulary} | read_facts(source))
    return {"models": models}

"""Checks of base models and engines: files, tokenizer, chat template, weights."""

from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from training_core.config.run import RunConfig
from training_core.importing import resolve
from training_core.llm.base_models.folder_creation import FACTS
from training_core.llm.base_models.packaged import PACKAGED_MODELS, check_packaged
from training_core.llm.base_models.registry import created_folder, resolve_model
from training_core.llm.base_models.tiny import check_is_supported
from training_core.llm.generation.registry import ENGINES
from training_core.llm.models.loading import load_model, load_tokenizer
from training_core.types import Message
from workers.actors.player import renderer
from workers.checks.results import Step, Unchecked
from workers.checks.shared import Surroundings
from workers.sizing.estimates import model_shape

LOADED_PARAMETERS = 200_000_000
"""Models up to this size are loaded completely; of larger ones the headers of the weight files are read."""
Source = Callable[[], Path | str]
"""The folder or hub id of a model."""
Opening = Callable[[str], list[Message] | None]
"""Policy -> messages of its first prompt, if the environment could be played."""


def model_steps(config: RunConfig, around: Surroundings, opening: Opening) -> Iterator[Step]:
    """Checks of each base model and of each policy's engine."""
    policies: dict[str, str] = {}
    for policy, model in config.models.items():
        policies.setdefault(model, policy)
    for model, policy in policies.items():
        name = Path(model).name or model
        source = cache(partial(_source, config, around, model))
        yield f"tokenizer and chat template of {name}", partial(_tokenizer, source, partial(opening, policy))
        yield f"weights of {name}", partial(_weights, config, around, source)
    for policy in config.used_policies:
        section = config.policies[policy].engine
        if ENGINES[section.type].check:
            yield f"engine of {policy}", partial(_engine, section)


def _source(config: RunConfig, around: Surroundings, model: str) -> Path | str:
    """Folder or hub id. Raises ModelError; Unchecked for a model that is made or converted when the run starts."""
    folder = created_folder(model, config.environment, around.home)
    if folder is not None and not (folder / FACTS).is_file():
        _check_can_be_made(config, model)
        raise Unchecked(f"the model {model!r} is made when the run starts")
    return resolve_model(model, config.environment, around.home)


def _check_can_be_made(config: RunConfig, model: str) -> None:
    """Raises ModelError if the model cannot be made for this environment, or its package is not installed."""
    if model in PACKAGED_MODELS:
        check_packaged(model)
    else:
        check_is_supported(config.environment)


def _tokenizer(source: Source, opening: Callable[[], list[Message] | None]) -> str:
    """Load the tokenizer, and render a prompt with its chat template."""
    tokenizer = load_tokenizer(source())
    messages = opening()
    shown = messages or [Message(role="user", content="-")]
    tokens = len(renderer(tokenizer)(shown))
    first = "the first prompt has" if messages else "a prompt has"
    return f"{first} {tokens} tokens"


def _weights(config: RunConfig, around: Surroundings, source: Source) -> str:
    """Load a small model; of a larger one read the headers of its files."""
    folder = source()
    if Path(folder).is_absolute() and not Path(folder).is_dir():
        raise Unchecked(f"there is no folder {folder}")
    if not Path(folder).is_dir():
        raise Unchecked(f"the weights of {folder} are read when the run starts")
    parameters = model_shape(str(folder), config, around.home).parameters
    if parameters > LOADED_PARAMETERS:
        return f"the headers of the weight files were read, with {parameters:,} parameters in total"
    load_model(folder)
    return f"{parameters:,} parameters were loaded"


def _engine(section: Any) -> str:
    """Import the engine's package, or call its servers."""
    check: Callable[[Any], str] = resolve(f"training_core.llm.generation.{ENGINES[section.type].check}")
    return check(section)

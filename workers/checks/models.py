"""Checks of base models and engines: files, tokenizer, chat template, weights."""

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from training_core.config.run import RunConfig
from training_core.errors import ModelError
from training_core.importing import resolve
from training_core.llm.base_models.folder_creation import FACTS
from training_core.llm.base_models.packaged import PACKAGED_MODELS, check_packaged
from training_core.llm.base_models.registry import created_folder, resolve_model
from training_core.llm.base_models.tiny import check_is_supported
from training_core.llm.generation.registry import ENGINES
from training_core.llm.models.loading import load_model, load_tokenizer
from training_core.types import Message
from workers.actors.player import renderer
from workers.checks.results import Doubtful, Step, Unchecked
from workers.checks.shared import Surroundings
from workers.sizing.estimates import model_shape

LOADED_PARAMETERS = 200_000_000
"""Models up to this size are loaded completely; of larger ones the headers of the weight files are read."""
Source = Callable[[], Path | str]
"""The folder or hub id of a model."""
Opening = Callable[[str], list[Message] | None]
"""Role -> messages of its first prompt, if the environment could be played."""


def model_steps(config: RunConfig, around: Surroundings, opening: Opening) -> Iterator[Step]:
    """Checks of each base model and of each policy's engine."""
    for model in dict.fromkeys(config.models.values()):
        name = Path(model).name or model
        source = cache(partial(_source, config, around, model))
        roles = [role for role in config.team.order if config.models[config.team.roles[role].policy] == model]
        prompts = partial(_prompts, source, opening, roles)
        yield f"tokenizer and chat template of {name}", partial(_tokenizer, prompts)
        yield f"context of {name}", partial(_context, config, around, model, prompts)
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


def _prompts(source: Source, opening: Opening, roles: Sequence[str]) -> dict[str, int]:
    """Tokens of the first prompt of each role whose prompt is known; of any prompt, under the name "", if none is known."""
    render = renderer(load_tokenizer(source()))
    known = {role: messages for role in roles if (messages := opening(role))}
    return {
        role: len(render(messages))
        for role, messages in (known or {"": [Message(role="user", content="-")]}).items()
    }


def _tokenizer(prompts: Callable[[], dict[str, int]]) -> str:
    """Load the tokenizer, and render a prompt with its chat template."""
    role, tokens = next(iter(prompts().items()))
    return f"{'the first prompt has' if role else 'a prompt has'} {tokens} tokens"


def _context(
    config: RunConfig, around: Surroundings, model: str, prompts: Callable[[], dict[str, int]]
) -> str:
    """Compare each role's first prompt and longest answer with the context. Raises Doubtful if they do not fit."""
    try:
        first, length = prompts(), model_shape(model, config, around.home).context
    except ModelError as error:
        raise Unchecked(str(error)) from error
    if "" in first:
        raise Unchecked("no prompt is known before the run starts")
    for role, tokens in first.items():
        section = config.team.roles[role]
        context = getattr(config.policies[section.policy].engine, "context", 0) or length
        if context and tokens + section.sampling.max_tokens > context:
            raise Doubtful(
                f"the first prompt of {role} has {tokens} tokens and its answers up to {section.sampling.max_tokens}, "
                f"but the context has {context}, so answers get what is left, and an episode ends at a prompt that leaves "
                f"nothing; lower team.roles.{role}.sampling.max_tokens, or use a model with a longer context"
            )
    return f"the first prompts and their answers fit into {length or 'any number of'} tokens"


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

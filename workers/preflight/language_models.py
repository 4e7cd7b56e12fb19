"""Checks of runs of language models: algorithm, workflow, environment, reward function, one played step, base models and engines."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

from training_core.algorithms.registry import make_hooks
from training_core.config.base import Section
from training_core.config.engines import choose_engine
from training_core.config.rewards import JudgeReward, RewardFunction
from training_core.config.rollout import Agent, CustomWorkflow, RolloutBuffer
from training_core.config.run import RunConfig
from training_core.errors import EnvironmentFailure, ModelError
from training_core.importing import made, resolve
from training_core.llm.base_models.folder_creation import FACTS
from training_core.llm.base_models.packaged import PACKAGED_MODELS, check_packaged
from training_core.llm.base_models.registry import created_folder, resolve_model
from training_core.llm.base_models.tiny import check_is_supported
from training_core.llm.environments.dataset import check_held_out
from training_core.llm.environments.external import External
from training_core.llm.environments.host import EnvironmentHost, SlotView, check_roles
from training_core.llm.environments.registry import types_with_warm_start, warm_start_of
from training_core.llm.generation.registry import ENGINES
from training_core.llm.generation.rendering import check_template_arguments
from training_core.llm.models.loading import load_model, load_tokenizer
from training_core.llm.rewards.pool import reward_source
from training_core.llm.workflows.agent import check_workflow, make_player
from training_core.llm.workflows.context import opening_messages
from training_core.sandbox.run import check_sandbox
from training_core.types import Message
from workers.actors.player import renderer
from workers.gateway.gateway import open_gateway
from workers.preflight.checks import Doubtful, Step, Surroundings, Unchecked, shared_steps
from workers.sizing.estimates import model_shape

LOADED_PARAMETERS = 200_000_000
"""Models up to this size are loaded completely; of larger ones the headers of the weight files are read."""
Source = Callable[[], Path | str]
"""The folder or hub id of a model."""
Opening = Callable[[str], list[Message] | None]
"""Role -> messages of its first prompt, if the environment could be played."""
PLAIN_ANSWER = "0"
"""The answer in environments without demonstrations."""


def steps(config: RunConfig, around: Surroundings) -> Iterator[Step]:
    """All checks of a config, cheap ones first."""
    table = _Table(config)
    yield from shared_steps(config, around)
    if config.trained_policies:
        yield "algorithm", partial(_algorithm, config)
    yield from _workflow_steps(config)
    if config.environment.sandboxed:
        yield "sandbox", _sandbox
    yield "environment", table.construct
    if path := _reward_path(config):
        yield "reward function", partial(_load, *path)
    yield "one played step", table.play
    for role, section in config.team.roles.items():
        if section.agent.path:
            yield f"agent of {role}", partial(table.agent, role)
    yield from model_steps(config, around, table.opening)


class _Table:
    """The environment in which the step is played."""

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._host: EnvironmentHost | None = None
        self._views: dict[str, SlotView] = {}
        """First view of each role."""

    def construct(self) -> str:
        """Import and construct the environment."""
        self._host = EnvironmentHost(self._config.environment, self._config.run.seed)
        check_held_out(self._config.environment, self._config.evaluation.every)
        return f"the environment {self._config.environment.type} was constructed"

    def play(self) -> str:
        """Play one turn of each role with a scripted answer. Raises EnvironmentFailure, ConfigError."""
        if isinstance(self._config.environment, External):
            raise Unchecked("external programs play the tasks")
        if self._host is None:
            raise Unchecked("the environment could not be constructed")
        if self._config.environment.player:
            make_player(self._config)
            raise Unchecked("the environment plays its tasks itself, in a dry run; its seats fit the team")
        view = _sound(self._host.reset({0: (0, "train")})[0])
        answer, acted = _answer(self._config), []
        for role in self._config.team.order:
            view = _sound(self._host.observe([0], role)[0])
            if view.silent or view.done:
                continue
            self._views[role] = view
            tried = self._host.try_answers({0: [answer]}, role)[0]
            if isinstance(tried, str):
                raise _raised(f"act({role!r}, {answer!r})", tried)
            view = _sound(self._host.commit({0: 0})[0])
            check_roles(tried, self._config.team.roles)
            own = tried[0].local_reward + tried[0].team_reward + tried[0].rewards.get(role, 0.0)
            acted.append(f"{role} {own:g}")
        return f"rewards: {', '.join(acted)}" if acted else "no role has a turn in the first state"

    def agent(self, role: str) -> str:
        """Import a role's custom agent, and call it with the role's first view."""
        section = self._config.team.roles[role]
        text = _load(section.agent.path, section.agent.args, f"team.roles.{role}.agent.path")
        if role not in self._views:
            return text
        count = len(opening_messages(section, self._views[role]))
        return f"{section.agent.path} returned {count} message{'s' * (count != 1)}"

    def opening(self, role: str) -> list[Message] | None:
        """Messages of a role's first prompt; None if the step could not be played, or if the role's agent raises."""
        if role in self._views:
            with suppress(Exception):  # stated by the check of the agent
                return opening_messages(self._config.team.roles[role], self._views[role])
        return None


def _sound(view: SlotView) -> SlotView:
    """A view without an error. Raises EnvironmentFailure."""
    if view.error:
        raise _raised("the environment", view.error)
    return view


def _raised(what: str, error: str) -> EnvironmentFailure:
    remedy = "correct the environment or its reward function"
    return EnvironmentFailure(f"{what} raised {error.rstrip('.')}", remedy=remedy)


def _answer(config: RunConfig) -> str:
    """The answer of a demonstration, if the environment has some."""
    kind = config.environment.type
    if kind not in types_with_warm_start():
        return PLAIN_ANSWER
    return next(warm_start_of(kind).demonstrations(config.environment, config.run.seed))[1]


def _algorithm(config: RunConfig) -> str:
    make_hooks(config.algorithm)
    return f"the algorithm {config.algorithm.type} was loaded"


def _sandbox() -> str:
    check_sandbox()
    return "a program ran in it"


def _load(path: str, args: dict[str, Any], field: str) -> str:
    made(path, args, field)
    return f"{path} was loaded"


def _reward_path(config: RunConfig) -> tuple[str, dict[str, Any], str] | None:
    """Import path, arguments and config field of the function of the environment or the workflow that rewards, or that a judge is
    compared with.
    """
    for name in ("environment", "workflow"):
        section = getattr(getattr(config, name), "reward", None)
        if isinstance(section, RewardFunction):
            return *reward_source(section), f"{name}.reward.path"
        if isinstance(section, JudgeReward) and section.rule:
            return section.rule, {}, f"{name}.reward.rule"
    return None


def _workflow_steps(config: RunConfig) -> Iterator[Step]:
    """Checks of code and ports of the workflow."""
    workflow = config.workflow
    if isinstance(workflow, CustomWorkflow):
        yield "workflow", partial(_load, workflow.path, workflow.args, "workflow.path")
    elif paths := [path for field in workflow.import_fields if (path := getattr(workflow, field))]:
        yield "agent" if isinstance(workflow, Agent) else "workflow", partial(_code, workflow, paths)
    if isinstance(workflow, Agent) and workflow.port:
        yield "port of the gateway", partial(_port, config, workflow.port)
    if isinstance(workflow, RolloutBuffer):
        yield "rollout buffer", _buffer


def _code(section: Section, paths: list[str]) -> str:
    check_workflow(section)
    return f"{' and '.join(paths)} {'were' if len(paths) > 1 else 'was'} imported"


def _port(config: RunConfig, port: int) -> str:
    gateway = open_gateway(config, {}, 1)
    assert gateway is not None
    gateway.close()
    return f"port {port} is free on this machine"


def _buffer() -> str:
    raise Unchecked("the service and its generator are reached when the run starts")


def model_steps(config: RunConfig, around: Surroundings, opening: Opening) -> Iterator[Step]:
    """Checks of each base model and of each policy's engine."""
    for model in dict.fromkeys(config.models.values()):
        name = Path(model).name or model
        source = cache(partial(_source, config, around, model))
        roles = [role for role in config.team.order if config.models[config.team.roles[role].policy] == model]
        prompts = partial(_prompts, config, source, opening, roles)
        yield f"tokenizer and chat template of {name}", partial(_tokenizer, prompts)
        yield f"context of {name}", partial(_context, config, around, model, prompts)
        yield f"weights of {name}", partial(_weights, config, around, source)
    for policy in config.used_policies:
        section, why = choose_engine(config.policies[policy])
        if why or ENGINES[section.type].check:
            yield f"engine of {policy}", partial(_engine, section, why)


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


def _prompts(config: RunConfig, source: Source, opening: Opening, roles: Sequence[str]) -> dict[str, int]:
    """Tokens of the first prompt of each role whose prompt is known; of any prompt, under the name "", if none is known."""
    tokenizer = load_tokenizer(source())
    render, arguments = (
        renderer(tokenizer),
        {role: config.team.roles[role].chat_template_kwargs for role in roles},
    )
    for role in roles:
        check_template_arguments(tokenizer, arguments[role], role)
    known = {role: messages for role in roles if (messages := opening(role))}
    return {role: len(render(messages, arguments=arguments[role])) for role, messages in known.items()} or {
        "": len(render([Message(role="user", content="-")]))
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
                "nothing",
                remedy=f"lower team.roles.{role}.sampling.max_tokens, or use a model with a longer context",
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


def _engine(section: Any, why: str) -> str:
    """Import the engine's package, or call its servers; for "auto", with the engine and the reason."""
    if why and not ENGINES[section.type].check:
        return f"{section.type}: {why}"
    check: Callable[[Any], str] = resolve(f"training_core.llm.generation.{ENGINES[section.type].check}")
    return f"{section.type}: {why}; {check(section)}" if why else check(section)

"""AReaL's names in one place: only imports of areal, arealite or realhf need to be replaced. And the workflow of a config.

Its older agents have an adapter: they communicate by queues, observations out and actions in, and may be registered by
name. An experiment's config selects registered ones by two properties: `workflow.path` names its class, and
`workflow.args` are its fields.
"""

import asyncio
import inspect
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from training_core.config.rollout import RolloutWorkflow as Section
from training_core.errors import ConfigError, EnvironmentFailure, NoReward
from training_core.importing import load_object
from training_core.llm.rewards.pool import reward_pool
from training_core.llm.rollout_workflows.api import (
    EpisodeResult,
    GenerationHyperparameters,
    Interaction,
    LLMRequest,
    ModelRequest,
    ModelResponse,
    RolloutWorkflow,
    Trajectory,
)
from training_core.llm.rollout_workflows.inference_engine import (
    RUNNING_EPISODE,
    InferenceEngine,
    RestartingLoader,
    RolloutLimits,
)
from training_core.llm.rollout_workflows.tensors import concat_padded_tensors

REGISTERED: dict[tuple[str, str], Callable[..., Any]] = {}
"""(agent or environment, name) -> class; filled by custom modules on import."""


def register_agent(name: str, agent: Callable[..., Any]) -> None:
    """Make a class available to AgentAbstraction. Raises ConfigError if another class has the name."""
    _register("agent", name, agent)


def register_environment(name: str, environment: Callable[..., Any]) -> None:
    """Make a class available to EnvServiceAbstraction. Raises ConfigError if another class has the name."""
    _register("environment", name, environment)


@dataclass
class AgentAbstraction:
    """A registered agent and its arguments."""

    type_: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class EnvServiceAbstraction:
    """A registered environment and its arguments; "null" is none."""

    type_: str = "null"
    args: dict[str, Any] = field(default_factory=dict)


@dataclass
class DatasetFile:
    """The data of an experiment's config."""

    path: str = ""


@dataclass
class AsyncRLExperimentConfig:
    """The base of an experiment's config. `dataset` is filled with the run's `environment.path`."""

    dataset: DatasetFile = field(default_factory=DatasetFile)

    @property
    def agent(self) -> AgentAbstraction:
        """The agent. Raises ConfigError if the class does not define it."""
        raise ConfigError(
            {"workflow.path": f"{type(self).__name__} needs a property agent: an AgentAbstraction"}
        )

    @property
    def env(self) -> EnvServiceAbstraction:
        """The environment."""
        return EnvServiceAbstraction()


class PPOMATHConfig:
    """The second base class of these configs. Its fields in AReaL are part of the run config here."""


def _register(kind: str, name: str, constructor: Callable[..., Any]) -> None:
    existing = REGISTERED.setdefault((kind, name), constructor)
    if (existing.__module__, existing.__qualname__) != (constructor.__module__, constructor.__qualname__):
        text = f"{name!r} is already registered for {existing.__qualname__}"
        raise ConfigError({"workflow.path": text}, remedy="use another name")
    REGISTERED[kind, name] = constructor


def _registered(kind: str, name: str) -> Callable[..., Any]:
    """A registered class. Raises ConfigError, which lists the registered ones."""
    if (kind, name) not in REGISTERED:
        existing = ", ".join(sorted(other for of, other in REGISTERED if of == kind)) or "none"
        raise ConfigError(
            {"workflow.path": f"no {kind} is registered as {name!r} (registered: {existing})"},
            remedy=f"call register_{kind} in a module that workflow.path imports",
        )
    return REGISTERED[kind, name]


Observation = tuple[str, list[int], GenerationHyperparameters]
"""(id of the question, token ids, sampling settings)"""


@dataclass(frozen=True)
class BundledGenerationOutputs:
    """The policy's answers to one observation; one entry per answer."""

    qid: str
    prompt_ids: list[int]
    output_ids: list[list[int]]
    logprobs: list[list[float]]
    no_eos: list[bool]
    """Whether the answer was truncated at the token limit."""
    version_start: list[int]
    version_end: list[int]

    @property
    def seqs(self) -> list[list[int]]:
        """Prompt and answer of each sequence."""
        return [self.prompt_ids + ids for ids in self.output_ids]


class EnvironmentService(ABC):
    """A Gym-like environment whose calls do not block each other."""

    async def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Reset; return (observation, info)."""
        return None, {}

    @abstractmethod
    async def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        """(observation, reward, terminated, truncated, info)."""


class Agent(ABC):
    """Collects one trajectory."""

    @abstractmethod
    async def collect_trajectory(
        self,
        prompt: dict[str, Any],
        env: EnvironmentService | None,
        obs_queue: "asyncio.Queue[Observation]",
        act_queue: "asyncio.Queue[BundledGenerationOutputs]",
    ) -> Trajectory | Sequence[float] | float | None:
        """Play `prompt` (data with `qid` and `input_ids`).

        Returns tensors, a reward per call or one for all, or None for a rejected episode.
        """


class QueueAgentWorkflow(RolloutWorkflow):
    """Plays an Agent as a rollout workflow."""

    def __init__(self, agent: Agent, environment: EnvironmentService | None = None) -> None:
        self._agent = agent
        self._environment = environment

    async def arun_episode(self, engine: InferenceEngine, data: dict[str, Any]) -> EpisodeResult:
        """Play an episode by the agent's queue. Raises EnvironmentFailure if rewards and calls do not match."""
        obs_queue: asyncio.Queue[Observation] = asyncio.Queue()
        act_queue: asyncio.Queue[BundledGenerationOutputs] = asyncio.Queue()
        calls: list[ModelResponse] = []
        serving = asyncio.create_task(_serve(engine, obs_queue, act_queue, calls))
        playing = asyncio.create_task(
            self._agent.collect_trajectory(data, self._environment, obs_queue, act_queue)
        )
        try:
            await asyncio.wait({serving, playing}, return_when=asyncio.FIRST_COMPLETED)
            if serving.done():
                serving.result()  # it only ends with an error
            result = await playing
        finally:
            serving.cancel()
            playing.cancel()
        if result is None or isinstance(result, dict):
            return result
        return _rewarded(calls, result)


async def _serve(
    engine: InferenceEngine,
    obs_queue: "asyncio.Queue[Observation]",
    act_queue: "asyncio.Queue[BundledGenerationOutputs]",
    calls: list[ModelResponse],
) -> None:
    """Answer observations one after the other, without end."""
    while True:
        qid, ids, gconfig = await obs_queue.get()
        if gconfig.n_samples != 1:
            raise EnvironmentFailure(
                f"an agent asked for n_samples = {gconfig.n_samples}",
                remedy="request each separately (rollout.group_size plays K episodes)",
            )
        response = await engine.agenerate(ModelRequest(list(ids), gconfig, rid=str(qid)))
        calls.append(response)
        versions = response.output_versions or [engine.get_version()]
        await act_queue.put(
            BundledGenerationOutputs(
                str(qid), response.input_tokens, [response.output_tokens], [response.output_logprobs],
                [response.stop_reason == "length"], [versions[0]], [versions[-1]],
            )
        )  # fmt: skip


def _rewarded(calls: Sequence[ModelResponse], result: Sequence[float] | float) -> list[Interaction]:
    """Calls with their rewards; a single reward is that of the last call."""
    rewards = (
        [0.0] * (len(calls) - 1) + [result]
        if isinstance(result, int | float)
        else [float(reward) for reward in result]
    )
    if len(rewards) != len(calls):
        raise EnvironmentFailure(f"the agent made {len(calls)} calls and returned {len(rewards)} rewards")
    return [Interaction(call, reward) for call, reward in zip(calls, rewards, strict=True)]


RewardFunction = Callable[..., float]
"""(prompt, completions, prompt_ids, completion_ids, **data) -> reward, as AReaL's workflows call it."""


class AsyncRewardWrapper:
    """An awaitable reward function: episodes do not wait for each other's rewards."""

    def __init__(self, reward_fn: RewardFunction) -> None:
        self._reward_fn = reward_fn

    async def __call__(self, *args: Any, **kwargs: Any) -> float:
        """The function's reward."""
        return await asyncio.to_thread(self._reward_fn, *args, **kwargs)


def make_reward_function(section: Section) -> RewardFunction:
    """The reward function of a workflow: runs in separate processes with a time limit. It raises NoReward if it does not
    apply to an answer.
    """
    pool = reward_pool(section.reward)

    def reward_fn(
        prompt: str, completions: str, prompt_ids: list[int], completion_ids: list[int], **data: Any
    ) -> float:
        ids = {"prompt_ids": prompt_ids, "completion_ids": completion_ids}
        scored = pool.score({**data, "prompt": prompt, "completions": completions, **ids})
        if scored.reward is None:
            raise NoReward("the reward function returned None for this answer")
        if (running := RUNNING_EPISODE.get(None)) is not None:
            for name, value in scored.parts.items():
                running.reward_parts[name] = running.reward_parts.get(name, 0.0) + value
        return scored.reward

    return reward_fn


def make_workflow(
    section: Section,
    gconfig: GenerationHyperparameters,
    tokenizer: Any,
    reward_fn: RewardFunction,
    dataset: str = "",
) -> RolloutWorkflow:
    """The workflow for a config; `dataset` is the file of the run's data, if it has one. Raises ConfigError."""
    available = {"gconfig": gconfig, "tokenizer": tokenizer, "reward_fn": reward_fn}
    instance: Any = _instance(
        section.path, "workflow.path", section.args, available | {"dataset": DatasetFile(dataset)}
    )
    if isinstance(instance, AsyncRLExperimentConfig):
        return _experiment(instance, section.path, available)
    if callable(getattr(instance, "arun_episode", None)):
        workflow: RolloutWorkflow = instance
        return workflow
    if callable(getattr(instance, "collect_trajectory", None)):
        environment = None
        if section.environment_path:
            available = {"tokenizer": tokenizer, "reward_fn": reward_fn}
            environment = _instance(
                section.environment_path, "workflow.environment_path", section.environment_args, available
            )
        return QueueAgentWorkflow(instance, environment)
    raise ConfigError({"workflow.path": f"{section.path} has neither arun_episode nor collect_trajectory"})


def _experiment(
    instance: AsyncRLExperimentConfig, path: str, available: dict[str, Any]
) -> QueueAgentWorkflow:
    """The registered agent and environment of an experiment's config."""
    agent, service = instance.agent, instance.env
    agent_class = _registered("agent", agent.type_)
    environment = None
    if service.type_ != "null":
        name = f"{path}, env {service.type_!r}"
        service_class = _registered("environment", service.type_)
        environment = _construct(service_class, name, "workflow.path", service.args, available)
    name = f"{path}, agent {agent.type_!r}"
    return QueueAgentWorkflow(
        _construct(agent_class, name, "workflow.path", agent.args, available), environment
    )


def _instance(path: str, field: str, args: dict[str, Any], available: dict[str, Any]) -> Any:
    """An instance of the class at an import path."""
    return _construct(load_object(path, field), path, field.replace("path", "args"), args, available)


def _construct(
    constructor: Callable[..., Any], name: str, field: str, args: dict[str, Any], available: dict[str, Any]
) -> Any:
    """An instance of a class, with the arguments in `available` that it accepts by name."""
    parameters = inspect.signature(constructor).parameters
    accepted = {name: value for name, value in available.items() if name in parameters}
    try:
        return constructor(**(accepted | args))
    except TypeError as error:
        raise ConfigError({field: f"{name} cannot be constructed: {error}"}) from error


class StatsTracker:
    """Seconds by part, until export."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}

    @contextmanager
    def record_timing(self, key: str) -> Iterator[None]:
        """Record the duration of the block."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds.setdefault(key, []).append(time.perf_counter() - start)

    def export(self) -> dict[str, float]:
        """Mean seconds of each part as `timeperf/<key>`, AReaL's names. Resets the seconds."""
        means = {f"timeperf/{key}": sum(seconds) / len(seconds) for key, seconds in self._seconds.items()}
        self._seconds = {}
        return means


TensorDict = Trajectory
LLMResponse = ModelResponse
cycle_dataloader = RestartingLoader
stats_tracker = StatsTracker()

__all__ = [
    "Agent", "AgentAbstraction", "AsyncRLExperimentConfig", "AsyncRewardWrapper",
    "BundledGenerationOutputs", "EnvServiceAbstraction", "EnvironmentService",
    "GenerationHyperparameters", "InferenceEngine", "LLMRequest", "LLMResponse", "ModelRequest",
    "ModelResponse", "PPOMATHConfig", "RestartingLoader", "RolloutLimits", "RolloutWorkflow", "TensorDict",
    "cycle_dataloader", "concat_padded_tensors", "register_agent", "register_environment",
    "stats_tracker",
]  # fmt: skip

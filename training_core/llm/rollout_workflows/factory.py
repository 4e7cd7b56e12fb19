"""Workflows from the config: classes by import path, constructed with the arguments that they accept."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from training_core.config.rollout import RolloutWorkflow as Section
from training_core.errors import ConfigError, NoReward
from training_core.importing import load_object
from training_core.llm.rewards.pool import reward_pool
from training_core.llm.rollout_workflows.api import GenerationHyperparameters, RolloutWorkflow
from training_core.llm.rollout_workflows.queue_agents import QueueAgentWorkflow
from training_core.llm.rollout_workflows.registered import (
    AsyncRLExperimentConfig,
    DatasetFile,
    registered_agent,
    registered_environment,
)

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
        arguments = {
            "prompt": prompt,
            "completions": completions,
            "prompt_ids": prompt_ids,
            "completion_ids": completion_ids,
        }
        reward = pool.score({**data, **arguments}).reward
        if reward is None:
            raise NoReward("the reward function returned None for this answer")
        return reward

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
    environment = registered_environment(service)
    return QueueAgentWorkflow(
        _construct(
            registered_agent(agent), f"{path}, agent {agent.type_!r}", "workflow.path", agent.args, available
        ),
        environment
        and _construct(
            environment, f"{path}, env {service.type_!r}", "workflow.path", service.args, available
        ),
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

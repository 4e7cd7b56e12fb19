"""Workflows from the config: classes by import path, constructed with the arguments that they accept."""

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

from training_core.config.rollout import RolloutWorkflow as Section
from training_core.errors import ConfigError
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
    """The reward function of a workflow: runs in separate processes with a time limit."""
    pool = reward_pool(section.reward)

    def reward_fn(
        prompt: str, completions: str, prompt_ids: list[int], completion_ids: list[int], **data: Any
    ) -> float:
        told = {
            "prompt": prompt,
            "completions": completions,
            "prompt_ids": prompt_ids,
            "completion_ids": completion_ids,
        }
        return pool.judge({**data, **told}).reward

    return reward_fn


def make_workflow(
    section: Section,
    gconfig: GenerationHyperparameters,
    tokenizer: Any,
    reward_fn: RewardFunction,
    dataset: str = "",
) -> RolloutWorkflow:
    """The workflow for a config; `dataset` is the file of the run's data, if it has one. Raises ConfigError."""
    at_hand = {"gconfig": gconfig, "tokenizer": tokenizer, "reward_fn": reward_fn}
    made: Any = _made(
        section.path, "workflow.path", section.args, at_hand | {"dataset": DatasetFile(dataset)}
    )
    if isinstance(made, AsyncRLExperimentConfig):
        return _experiment(made, section.path, at_hand)
    if callable(getattr(made, "arun_episode", None)):
        workflow: RolloutWorkflow = made
        return workflow
    if callable(getattr(made, "collect_trajectory", None)):
        environment = None
        if section.environment_path:
            at_hand = {"tokenizer": tokenizer, "reward_fn": reward_fn}
            environment = _made(
                section.environment_path, "workflow.environment_path", section.environment_args, at_hand
            )
        return QueueAgentWorkflow(made, environment)
    raise ConfigError({"workflow.path": f"{section.path} has neither arun_episode nor collect_trajectory"})


def _experiment(made: AsyncRLExperimentConfig, path: str, at_hand: dict[str, Any]) -> QueueAgentWorkflow:
    """The registered agent and environment of an experiment's config."""
    agent, service = made.agent, made.env
    environment = registered_environment(service)
    return QueueAgentWorkflow(
        _called(
            registered_agent(agent), f"{path}, agent {agent.type_!r}", "workflow.path", agent.args, at_hand
        ),
        environment
        and _called(environment, f"{path}, env {service.type_!r}", "workflow.path", service.args, at_hand),
    )


def _made(path: str, field: str, args: dict[str, Any], at_hand: dict[str, Any]) -> Any:
    """An instance of the class at an import path."""
    return _called(load_object(path, field), path, field.replace("path", "args"), args, at_hand)


def _called(
    found: Callable[..., Any], name: str, field: str, args: dict[str, Any], at_hand: dict[str, Any]
) -> Any:
    """An instance of a class, with the arguments in `at_hand` that it accepts by name."""
    takes = inspect.signature(found).parameters
    wanted = {name: value for name, value in at_hand.items() if name in takes}
    try:
        return found(**(wanted | args))
    except TypeError as error:
        raise ConfigError({field: f"{name} cannot be constructed: {error}"}) from error

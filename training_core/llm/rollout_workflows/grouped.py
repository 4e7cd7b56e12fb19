"""Several episodes on one row of data as one result (AReaL's `group_size`), and workflows by import path."""

import asyncio
import copy
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from training_core.importing import load_object
from training_core.llm.rollout_workflows.api import EpisodeResult, Interaction, ModelResponse, RolloutWorkflow
from training_core.llm.rollout_workflows.tensors import concat_padded_tensors
from training_core.llm.serving.noise import EpisodeNoise

if TYPE_CHECKING:
    from training_core.llm.rollout_workflows.inference_engine import InferenceEngine


@dataclass
class RunningEpisode:
    """The running episode: its sampling noise and its responses."""

    noise: EpisodeNoise
    responses: list[tuple[str, ModelResponse]] = field(default_factory=list)
    """(role, response) of every call, in the order of responses."""


RUNNING_EPISODE: ContextVar[RunningEpisode] = ContextVar("playing")


class GroupedWorkflow(RolloutWorkflow):
    """Plays `size` episodes, each on a copy of the data, and joins the accepted ones' tensors or interactions."""

    def __init__(self, make: Callable[[], RolloutWorkflow], size: int) -> None:
        self._make = make
        self._size = size

    async def arun_episode(self, engine: "InferenceEngine", data: dict[str, Any]) -> EpisodeResult:
        """Play the members of a group at the same time; None if every member is rejected."""
        noise = RUNNING_EPISODE.get().noise

        async def member(index: int) -> EpisodeResult:
            RUNNING_EPISODE.set(RunningEpisode(noise.of_member(index)))
            return await self._make().arun_episode(engine, copy.deepcopy(data))

        results = await asyncio.gather(*(asyncio.create_task(member(index)) for index in range(self._size)))
        accepted: list[Any] = [result for result in results if result is not None]
        if not accepted:
            return None
        tensors = [result for result in accepted if isinstance(result, dict) and "input_ids" in result]
        if len(tensors) == len(accepted):
            return concat_padded_tensors(tensors)
        lists = [result.values() if isinstance(result, Mapping) else result for result in accepted]
        return [item for result in lists for item in result if isinstance(item, Interaction)]


def workflow_factory(
    workflow: RolloutWorkflow | str | None,
    build: Callable[[], RolloutWorkflow] | None,
    kwargs: Mapping[str, Any] | None,
    group_size: int,
) -> Callable[[], RolloutWorkflow]:
    """A function that constructs the workflow of an episode. Raises ValueError without one, ConfigError if its import path is invalid."""
    if isinstance(workflow, str):
        build = partial(load_object(workflow, "workflow"), **dict(kwargs or {}))
    elif workflow is not None:
        build = partial(_return_workflow, workflow)
    if build is None:
        raise ValueError("submit needs a workflow, its import path, or a workflow_builder")
    if group_size < 1:
        raise ValueError(f"group_size = {group_size}: it must be at least 1")
    return build if group_size == 1 else partial(GroupedWorkflow, build, group_size)


def _return_workflow(workflow: RolloutWorkflow) -> RolloutWorkflow:
    return workflow

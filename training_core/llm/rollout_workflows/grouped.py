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

if TYPE_CHECKING:
    from training_core.llm.rollout_workflows.inference_engine import InferenceEngine

MEMBER = 1 << 20
"""Number of calls with distinct noise in each of a group's episodes."""


@dataclass
class Playing:
    """The running episode: the key of its sampling noise, which never depends on timing, and its responses."""

    number: int
    calls: int = 0
    heard: list[tuple[str, ModelResponse]] = field(default_factory=list)
    """(role, response) of every call, in the order of responses."""


PLAYING: ContextVar[Playing] = ContextVar("playing")


class Grouped(RolloutWorkflow):
    """Plays `size` episodes, each on a copy of the data, and joins the accepted ones' tensors or interactions."""

    def __init__(self, make: Callable[[], RolloutWorkflow], size: int) -> None:
        self._make = make
        self._size = size

    async def arun_episode(self, engine: "InferenceEngine", data: dict[str, Any]) -> EpisodeResult:
        """See RolloutWorkflow; None if every member is rejected."""
        number = PLAYING.get().number

        async def member(place: int) -> EpisodeResult:
            PLAYING.set(Playing(number, place * MEMBER))
            return await self._make().arun_episode(engine, copy.deepcopy(data))

        results = await asyncio.gather(*(asyncio.create_task(member(place)) for place in range(self._size)))
        accepted: list[Any] = [result for result in results if result is not None]
        if not accepted:
            return None
        tensors = [result for result in accepted if isinstance(result, dict) and "input_ids" in result]
        if len(tensors) == len(accepted):
            return concat_padded_tensors(tensors)
        lists = [result.values() if isinstance(result, Mapping) else result for result in accepted]
        return [each for result in lists for each in result if isinstance(each, Interaction)]


def maker(
    workflow: RolloutWorkflow | str | None,
    build: Callable[[], RolloutWorkflow] | None,
    kwargs: Mapping[str, Any] | None,
    group_size: int,
) -> Callable[[], RolloutWorkflow]:
    """A function that constructs the workflow of an episode. Raises ValueError without one, ConfigError if its import path is invalid."""
    if isinstance(workflow, str):
        build = partial(load_object(workflow, "workflow"), **dict(kwargs or {}))
    elif workflow is not None:
        build = partial(_itself, workflow)
    if build is None:
        raise ValueError("submit needs a workflow, its import path, or a workflow_builder")
    if group_size < 1:
        raise ValueError(f"group_size = {group_size}: it must be at least 1")
    return build if group_size == 1 else partial(Grouped, build, group_size)


def _itself(workflow: RolloutWorkflow) -> RolloutWorkflow:
    return workflow

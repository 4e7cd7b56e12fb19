"""Episodes of tasks that a program plays as a whole: K of each training task, one of each held-out task.

The group is (task, role), as for whole episodes; with workflow.export_style = "individual" it is (task, role, number of
the call), and each call has the advantage of its own return.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from training_core.config.rollout import Agent, RolloutWorkflow
from training_core.config.run import RunConfig
from training_core.llm.agents.session import AgentGateway, PolicyClient, SessionSpec
from training_core.llm.environments.base import Split
from training_core.llm.environments.dataset import Dataset, task_instance
from training_core.llm.environments.host import SlotView, describe
from training_core.llm.generation.base import Generate
from training_core.llm.generation.registry import ENGINES
from training_core.llm.workflows.context import RolloutContext, chat_messages
from training_core.llm.workflows.episodes import EVALUATION_SEED, sampling_settings
from training_core.llm.workflows.lockstep import EpisodeKind
from training_core.llm.workflows.overlong import apply_overlong_penalty
from training_core.seeding import NoiseStream
from training_core.types import Episode

Item = TypeVar("Item")
log = logging.getLogger(__name__)


def task_episodes(
    tasks: Sequence[int], context: RolloutContext, kind: EpisodeKind, streams: tuple[NoiseStream, NoiseStream]
) -> list[SessionSpec]:
    """The episodes of training tasks or of held-out tasks, without clients. `streams`: of the noise in training, in evaluation."""
    config, training = context.config, kind == "train"
    split: Split = "train" if training else "eval"
    count = config.rollout.group_size if training else 1
    views = _initial_views(tasks, context, split)
    planned = []
    for task in tasks:
        view = views[task][""]
        for number in range(task * count, (task + 1) * count):
            name = f"{context.attempt}-{context.iteration}-{kind}-{number}"
            episode = Episode(name, context.iteration, kind, view.task_id, view.title, started=time.time())
            if training:
                episode.siblings = f"{context.iteration}-{task}"
                noise = config.run.seed, streams[0], context.iteration, number
            else:
                episode.probe = task < config.evaluation.probes
                noise = EVALUATION_SEED, streams[1], 0, number
            data = _task_data(task, split, views[task], config)  # programs may change it
            planned.append(SessionSpec(episode, data, {}, noise))
    return planned


async def play_concurrently(
    items: Sequence[Item],
    play: Callable[[Item], Awaitable[None]],
    fail: Callable[[Item, str], None],
    workflow: Agent | RolloutWorkflow,
) -> None:
    """Play all items, `workflow.concurrency` at a time. An exception or the end of its time fails only its item."""
    slots = asyncio.Semaphore(workflow.concurrency)

    async def guarded(item: Item) -> None:
        async with slots:
            try:
                await asyncio.wait_for(play(item), workflow.timeout)
            except TimeoutError:
                fail(item, timeout_message(workflow))
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                fail(item, "its program cancelled itself")
            except (Exception, SystemExit) as error:
                fail(item, describe(error))

    await asyncio.gather(*map(guarded, items))


def timeout_message(workflow: Agent | RolloutWorkflow) -> str:
    """The error of an episode that was played for too long."""
    return f"the episode took longer than workflow.timeout = {workflow.timeout:g} seconds"


def policy_clients(
    config: RunConfig, generate: Mapping[str, Generate], gateway: AgentGateway, kind: EpisodeKind
) -> dict[str, PolicyClient]:
    """The client of each role, in the team's order. `generate`: engine call by policy."""
    return {
        role: PolicyClient(
            section.policy,
            generate[section.policy],
            sampling_settings(config, role, kind),
            gateway.renderers[section.policy].with_arguments(section.chat_template_kwargs),
            ENGINES[config.policies[section.policy].engine.type].grammars,
        )
        for role in config.team.order
        for section in [config.team.roles[role]]
    }


def turn_discount_of(config: RunConfig) -> float | None:
    """None if calls are joined into sequences; see workflow.export_style."""
    workflow = config.workflow
    if isinstance(workflow, Agent | RolloutWorkflow) and workflow.export_style == "individual":
        return workflow.turn_discount
    return None


def complete(episodes: list[Episode], config: RunConfig) -> list[Episode]:
    """Apply the penalty for overlong answers, and log how many episodes failed."""
    apply_overlong_penalty(episodes, config)
    failed = [episode for episode in episodes if episode.failed]
    if failed:
        log.warning("%d of %d episodes failed; one of them: %s", len(failed), len(episodes), failed[0].error)
    return episodes


def _initial_views(
    tasks: Sequence[int], context: RolloutContext, split: Split
) -> dict[int, dict[str, SlotView]]:
    """By task: the initial observation of each role; "" is the task itself."""
    slots = dict(enumerate(tasks))
    started = context.pool.reset({slot: (task, split) for slot, task in slots.items()})
    seen = {role: context.pool.observe(list(slots), role) for role in context.config.team.order}
    return {
        task: {"": started[slot]} | {role: views[slot] for role, views in seen.items()}
        for slot, task in slots.items()
    }


def _task_data(task: int, split: Split, views: dict[str, SlotView], config: RunConfig) -> dict[str, Any]:
    """A task as passed to a program."""
    first = config.team.order[0]
    row: dict[str, Any] = {}
    if isinstance(config.environment, Dataset):
        row = task_instance(config.environment, config.run.seed, task, split).data
    return row | {
        "id": views[""].task_id,
        "number": task,
        "split": split,
        "title": views[""].title,
        "observations": {role: views[role].observation for role in config.team.order},
        "messages": chat_messages(config.team.roles[first], views[first]),
    }

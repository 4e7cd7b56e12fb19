"""Custom rollout workflows with AReaL's interface: K episodes of each task, compared as wholes.

The group is (task, role), as for whole episodes; for interactions with workflow.export_style = "individual" it is
(task, role, number of the call), and each call has its own return. A rejected episode is not trained on; one that
raises counts as failed.
"""

import asyncio
import logging
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from training_core.config.rollout import RolloutWorkflow as Section
from training_core.config.run import RunConfig
from training_core.config.tasks import Dataset
from training_core.errors import DataError, EngineFailure
from training_core.llm.environments.host import describe
from training_core.llm.generation.base import Interrupted, SamplingSettings, settings_of
from training_core.llm.generation.sequence_checks import check_reward, check_sequence
from training_core.llm.rollout_workflows.api import (
    EpisodeResult,
    GenerationHyperparameters,
    ModelResponse,
    RolloutWorkflow,
)
from training_core.llm.rollout_workflows.factory import make_reward_function, make_workflow
from training_core.llm.rollout_workflows.inference_engine import InferenceEngine, Limits
from training_core.llm.rollout_workflows.rows import RowData
from training_core.llm.rollout_workflows.tensors import is_tensors, stretches
from training_core.llm.rollout_workflows.token_ids import workflow_tokenizer
from training_core.llm.rollout_workflows.token_sequences import Stretch, as_heard
from training_core.llm.workflows.agent import data_of, episode_of, turn_discount_of, views_of
from training_core.llm.workflows.context import Table
from training_core.llm.workflows.independent import EVALUATION_SEED, evaluation_settings
from training_core.llm.workflows.overlong import charge_overlong
from training_core.types import NOT_SAMPLED, Answer, Candidate, Episode, Prompt, Stage, Turn

WORKFLOW_STREAM, WORKFLOW_EVALUATION_STREAM = 5, 6
log = logging.getLogger(__name__)


@dataclass
class _Seat:
    """An episode to play."""

    episode: Episode
    data: dict[str, Any]
    result: EpisodeResult = None
    heard: list[tuple[str, ModelResponse]] = field(default_factory=list)
    """(role, response) of the episode's calls."""
    version: int = 0
    """Version of the first role's policy at the start: used for tokens whose versions the result does not contain."""


class _Voice:
    """A role of the table, as an engine."""

    def __init__(self, table: Table, role: str, settings: SamplingSettings) -> None:
        self.version = table.version(table.config.team.roles[role].policy)
        self._generate = table.generate[table.config.team.roles[role].policy]
        self._settings = settings

    def generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None = None
    ) -> list[list[Answer]]:
        """See Engine. Raises EngineFailure if a request's sampling settings differ from the role's."""
        wanted = replace(self._settings, max_tokens=settings.max_tokens, stop=settings.stop)
        if settings != wanted:
            raise EngineFailure(
                "a request has other sampling settings than its role; pass on the gconfig that the workflow was "
                "constructed with (team.roles.*.sampling sets it)"
            )
        return self._generate(prompts, settings)

    def load_weights(self, state: Any, version: int) -> None:
        """See Engine: the run publishes weights, not the workflow."""
        raise EngineFailure("a workflow of a run cannot load weights; the run publishes them")


class _Guarded(RolloutWorkflow):
    """A workflow whose errors end only its own episode, with a time limit."""

    def __init__(self, inner: RolloutWorkflow, seat: _Seat, timeout: float) -> None:
        self._inner = inner
        self._seat = seat
        self._timeout = timeout

    async def arun_episode(self, engine: InferenceEngine, data: dict[str, Any]) -> EpisodeResult:
        """See RolloutWorkflow."""
        episode = self._seat.episode
        episode.started = time.time()
        try:
            self._seat.result = await asyncio.wait_for(self._inner.arun_episode(engine, data), self._timeout)
            self._seat.heard = engine.heard()
            episode.outcome = "rejected" if self._seat.result is None else ""
        except TimeoutError:
            _fail(episode, f"the episode took longer than workflow.timeout = {self._timeout:g} seconds")
        except Exception as error:
            _fail(episode, describe(error))
        episode.ended = time.time()
        return []


def play_rollout_workflows(tasks: Sequence[int], table: Table) -> list[Episode]:
    """Play training tasks, K = rollout.group_size episodes of each."""
    config, count = table.config, table.config.rollout.group_size
    views = views_of(tasks, table, "train")
    seats = []
    for task in tasks:
        for sibling in range(count):
            episode = episode_of(table, "train", f"{task * count + sibling}", views[task][""])
            episode.siblings = f"{table.iteration}-{task}"
            seats.append(_Seat(episode, RowData(data_of(task, "train", views[task], config))))
    settings = {role: settings_of(item.sampling) for role, item in config.team.roles.items()}
    noise = (config.run.seed, WORKFLOW_STREAM, table.iteration)
    return _play(seats, table, settings, noise, tasks[0] * count)


def evaluate_rollout_workflows(
    tasks: Sequence[int], table: Table, kind: Literal["eval", "eval_sampled"]
) -> list[Episode]:
    """Play held-out tasks once each: "eval" greedily, "eval_sampled" at the role's temperature for it."""
    config = table.config
    views = views_of(tasks, table, "eval")
    seats = []
    for task in tasks:
        episode = episode_of(table, kind, f"{task}", views[task][""])
        episode.probe = task < config.evaluation.probes
        seats.append(_Seat(episode, RowData(data_of(task, "eval", views[task], config))))
    settings = {role: evaluation_settings(config, role, kind) for role in config.team.roles}
    return _play(seats, table, settings, (EVALUATION_SEED, WORKFLOW_EVALUATION_STREAM, 0), tasks[0])


def _play(
    seats: list[_Seat],
    table: Table,
    settings: dict[str, SamplingSettings],
    noise: tuple[int, int, int],
    first: int,
) -> list[Episode]:
    config, section = table.config, table.config.workflow
    assert isinstance(section, Section), "this workflow is for classes with AReaL's interface"
    order = config.team.order
    voices = {role: _Voice(table, role, settings[role]) for role in order}
    workflow = make_workflow(
        section,
        _gconfig(settings[order[0]]),
        workflow_tokenizer(table.tokenizers[config.team.roles[order[0]].policy]),
        make_reward_function(section),
        config.environment.path if isinstance(config.environment, Dataset) else "",
    )
    with InferenceEngine(voices, Limits(section.concurrency), noise=noise, first=first) as engine:
        for seat in seats:
            seat.version = voices[order[0]].version
            engine.submit(seat.data, _Guarded(workflow, seat, section.timeout))
        engine.wait(len(seats))
    episodes = [episode for seat in seats for episode in _written(seat, table, section)]
    charge_overlong(episodes, config)
    failed = [episode for episode in episodes if episode.failed]
    if failed:
        log.warning("%d of %d episodes failed; one of them: %s", len(failed), len(episodes), failed[0].error)
    return episodes


def _gconfig(settings: SamplingSettings) -> GenerationHyperparameters:
    return GenerationHyperparameters(
        max_new_tokens=settings.max_tokens,
        temperature=settings.temperature,
        top_p=settings.top_p,
        top_k=settings.top_k,
        greedy=settings.greedy,
        stop=settings.stop,
    )


def _written(seat: _Seat, table: Table, section: Section) -> Iterator[Episode]:
    """What was played: one episode, or one for each sequence if a result has several without role names."""
    episode = seat.episode
    try:
        found = _found(seat, table)
    except Exception as error:
        _fail(episode, describe(error))
        found = []
    if len(found) < 2 or not is_tensors(seat.result):
        yield _with_turns(episode, found, table, section)
        return
    for row, stretch in enumerate(found):
        yield _with_turns(
            replace(episode, id=f"{episode.id}.{row}", turns=[], stages=[]), [stretch], table, section
        )


def _found(seat: _Seat, table: Table) -> list[Stretch]:
    """The sequences of an episode's result, replaced by the engine's record of its calls where they match.

    A conversation rendered again from text may have other ids than the sampled ones; the calls have the sampled ids.
    Raises EnvironmentFailure, DataError.
    """
    first = table.config.team.order[0]
    discount = turn_discount_of(table.config)
    if discount is not None and is_tensors(seat.result):
        raise DataError(
            'the workflow returned tensors, which have one reward per sequence; workflow.export_style = "individual" needs '
            "interactions or an agent with queues. Remove export_style and turn_discount, or return interactions"
        )
    found = stretches(seat.result, seat.version, by_call=discount is not None)
    if not is_tensors(seat.result):
        seat.episode.turn_discount = discount
    elif len(found) == 1 and seat.heard:
        found = as_heard(found[0], seat.heard, first)
    for prompt, answer, reward, role in found:
        if role and role not in table.config.team.roles:
            raise DataError(f"there is no role {role!r}; roles are {', '.join(table.config.team.roles)}")
        policy = table.config.team.roles[role or first].policy
        check_reward(reward)
        check_sequence(prompt, answer, len(table.tokenizers[policy]), table.version(policy))
    return found


def _with_turns(
    episode: Episode,
    found: Sequence[Stretch],
    table: Table,
    section: Section,
) -> Episode:
    total = 0.0
    for place, (prompt, answer, reward, role) in enumerate(found):
        total += reward
        turn = _turn(place, prompt, answer, reward, role or table.config.team.order[0], table)
        episode.turns.append(turn)
        versions = [version for version in answer.versions if version != NOT_SAMPLED]
        span = (min(versions), max(versions)) if versions else None
        episode.stages.append(Stage("generate", episode.started, episode.ended, turn.role, turn.policy, span))
    if found:
        episode.success = total >= section.success_at
        episode.outcome = f"reward {total:g}"
    return episode


def _turn(place: int, prompt: list[int], answer: Answer, reward: float, role: str, table: Table) -> Turn:
    policy = table.config.team.roles[role].policy
    tokenizer = table.tokenizers[policy]
    told = replace(answer, text=str(tokenizer.decode(answer.token_ids, skip_special_tokens=True)))
    seen = str(tokenizer.decode(prompt, skip_special_tokens=True))
    candidate = Candidate(told, 0.0, reward, _weighed(reward, table.config))
    return Turn(place, role, policy, [{"role": "user", "content": seen}], prompt, [candidate], 0)


def _weighed(reward: float, config: RunConfig) -> float:
    return config.algorithm.team_weight * reward


def _fail(episode: Episode, error: str) -> None:
    episode.failed, episode.error, episode.outcome = True, error, f"failed: {error}"[:200]
    episode.siblings = ""

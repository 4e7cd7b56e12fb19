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
from training_core.errors import DataError, EngineFailure
from training_core.llm.environments.dataset.config import Dataset
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
from training_core.llm.rollout_workflows.inference_engine import InferenceEngine, RolloutLimits
from training_core.llm.rollout_workflows.rows import RowData
from training_core.llm.rollout_workflows.tensors import is_tensors, token_sequences_of
from training_core.llm.rollout_workflows.token_ids import workflow_tokenizer
from training_core.llm.rollout_workflows.token_sequences import TokenSequence, sequences_from_responses
from training_core.llm.workflows.agent import initial_views, new_episode, task_data, turn_discount_of
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.independent import EVALUATION_SEED, evaluation_settings
from training_core.llm.workflows.overlong import apply_overlong_penalty
from training_core.seeding import NoiseStream
from training_core.types import Answer, Candidate, Episode, Prompt, Stage, Turn
from training_core.versions import version_span

log = logging.getLogger(__name__)


@dataclass
class _PendingEpisode:
    """An episode to play."""

    episode: Episode
    data: dict[str, Any]
    result: EpisodeResult = None
    responses: list[tuple[str, ModelResponse]] = field(default_factory=list)
    """(role, response) of the episode's calls."""
    version: int = 0
    """Version of the first role's policy at the start: used for tokens whose versions the result does not contain."""


class _RoleEngine:
    """A role of the context, as an engine."""

    def __init__(self, context: RolloutContext, role: str, settings: SamplingSettings) -> None:
        self.version = context.version(context.config.team.roles[role].policy)
        self._generate = context.generate[context.config.team.roles[role].policy]
        self._settings = settings

    def generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None = None
    ) -> list[list[Answer]]:
        """See Engine. Raises EngineFailure if a request's sampling settings differ from the role's."""
        expected = replace(self._settings, max_tokens=settings.max_tokens, stop=settings.stop)
        if settings != expected:
            raise EngineFailure(
                "a request has other sampling settings than its role; pass on the gconfig that the workflow was "
                "constructed with (team.roles.*.sampling sets it)"
            )
        return self._generate(prompts, settings)

    def load_weights(self, state: Any, version: int) -> None:
        """See Engine: the run publishes weights, not the workflow."""
        raise EngineFailure("a workflow of a run cannot load weights; the run publishes them")


class _TimeLimitedWorkflow(RolloutWorkflow):
    """A workflow whose errors end only its own episode, with a time limit."""

    def __init__(self, inner: RolloutWorkflow, pending: _PendingEpisode, timeout: float) -> None:
        self._inner = inner
        self._pending = pending
        self._timeout = timeout

    async def arun_episode(self, engine: InferenceEngine, data: dict[str, Any]) -> EpisodeResult:
        """See RolloutWorkflow."""
        episode = self._pending.episode
        episode.started = time.time()
        try:
            self._pending.result = await asyncio.wait_for(
                self._inner.arun_episode(engine, data), self._timeout
            )
            self._pending.responses = engine.responses()
            episode.outcome = "rejected" if self._pending.result is None else ""
        except TimeoutError:
            _fail(episode, f"the episode took longer than workflow.timeout = {self._timeout:g} seconds")
        except Exception as error:
            _fail(episode, describe(error))
        episode.ended = time.time()
        return []


def play_rollout_workflows(tasks: Sequence[int], context: RolloutContext) -> list[Episode]:
    """Play training tasks, K = rollout.group_size episodes of each."""
    config, count = context.config, context.config.rollout.group_size
    views = initial_views(tasks, context, "train")
    pending_episodes = []
    for task in tasks:
        for sibling in range(count):
            episode = new_episode(context, "train", f"{task * count + sibling}", views[task][""])
            episode.siblings = f"{context.iteration}-{task}"
            pending_episodes.append(
                _PendingEpisode(episode, RowData(task_data(task, "train", views[task], config)))
            )
    settings = {role: settings_of(item.sampling) for role, item in config.team.roles.items()}
    noise = (config.run.seed, NoiseStream.ROLLOUT_WORKFLOWS, context.iteration)
    return _play(pending_episodes, context, settings, noise, tasks[0] * count)


def evaluate_rollout_workflows(
    tasks: Sequence[int], context: RolloutContext, kind: Literal["eval", "eval_sampled"]
) -> list[Episode]:
    """Play held-out tasks once each: "eval" greedily, "eval_sampled" at the role's temperature for it."""
    config = context.config
    views = initial_views(tasks, context, "eval")
    pending_episodes = []
    for task in tasks:
        episode = new_episode(context, kind, f"{task}", views[task][""])
        episode.probe = task < config.evaluation.probes
        pending_episodes.append(
            _PendingEpisode(episode, RowData(task_data(task, "eval", views[task], config)))
        )
    settings = {role: evaluation_settings(config, role, kind) for role in config.team.roles}
    return _play(
        pending_episodes,
        context,
        settings,
        (EVALUATION_SEED, NoiseStream.ROLLOUT_WORKFLOW_EVALUATION, 0),
        tasks[0],
    )


def _play(
    pending_episodes: list[_PendingEpisode],
    context: RolloutContext,
    settings: dict[str, SamplingSettings],
    noise: tuple[int, int, int],
    first: int,
) -> list[Episode]:
    config, section = context.config, context.config.workflow
    assert isinstance(section, Section), "this workflow is for classes with AReaL's interface"
    order = config.team.order
    engines = {role: _RoleEngine(context, role, settings[role]) for role in order}
    workflow = make_workflow(
        section,
        _gconfig(settings[order[0]]),
        workflow_tokenizer(context.tokenizers[config.team.roles[order[0]].policy]),
        make_reward_function(section),
        config.environment.path if isinstance(config.environment, Dataset) else "",
    )
    with InferenceEngine(engines, RolloutLimits(section.concurrency), noise=noise, first=first) as engine:
        for pending in pending_episodes:
            pending.version = engines[order[0]].version
            engine.submit(pending.data, _TimeLimitedWorkflow(workflow, pending, section.timeout))
        engine.wait(len(pending_episodes))
    episodes = [
        episode for pending in pending_episodes for episode in _finished_episodes(pending, context, section)
    ]
    apply_overlong_penalty(episodes, config)
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


def _finished_episodes(
    pending: _PendingEpisode, context: RolloutContext, section: Section
) -> Iterator[Episode]:
    """What was played: one episode, or one for each sequence if a result has several without role names."""
    episode = pending.episode
    try:
        sequences = _sequences_of(pending, context)
    except Exception as error:
        _fail(episode, describe(error))
        sequences = []
    if len(sequences) < 2 or not is_tensors(pending.result):
        yield _with_turns(episode, sequences, context, section)
        return
    for row, sequence in enumerate(sequences):
        yield _with_turns(
            replace(episode, id=f"{episode.id}.{row}", turns=[], stages=[]), [sequence], context, section
        )


def _sequences_of(pending: _PendingEpisode, context: RolloutContext) -> list[TokenSequence]:
    """The sequences of an episode's result, replaced by the engine's record of its calls where they match.

    A conversation rendered again from text may have other ids than the sampled ones; the calls have the sampled ids.
    Raises EnvironmentFailure, DataError.
    """
    first = context.config.team.order[0]
    discount = turn_discount_of(context.config)
    if discount is not None and is_tensors(pending.result):
        raise DataError(
            'the workflow returned tensors, which have one reward per sequence; workflow.export_style = "individual" needs '
            "interactions or an agent with queues. Remove export_style and turn_discount, or return interactions"
        )
    sequences = token_sequences_of(pending.result, pending.version, by_call=discount is not None)
    if not is_tensors(pending.result):
        pending.episode.turn_discount = discount
    elif len(sequences) == 1 and pending.responses:
        sequences = sequences_from_responses(sequences[0], pending.responses, first)
    for prompt, answer, reward, role in sequences:
        if role and role not in context.config.team.roles:
            raise DataError(f"there is no role {role!r}; roles are {', '.join(context.config.team.roles)}")
        policy = context.config.team.roles[role or first].policy
        check_reward(reward)
        check_sequence(prompt, answer, len(context.tokenizers[policy]), context.version(policy))
    return sequences


def _with_turns(
    episode: Episode,
    sequences: Sequence[TokenSequence],
    context: RolloutContext,
    section: Section,
) -> Episode:
    total = 0.0
    for index, (prompt, answer, reward, role) in enumerate(sequences):
        total += reward
        turn = _turn(index, prompt, answer, reward, role or context.config.team.order[0], context)
        episode.turns.append(turn)
        span = version_span(answer.versions)
        episode.stages.append(Stage("generate", episode.started, episode.ended, turn.role, turn.policy, span))
    if sequences:
        episode.success = total >= section.success_at
        episode.outcome = f"reward {total:g}"
    return episode


def _turn(
    index: int, prompt: list[int], answer: Answer, reward: float, role: str, context: RolloutContext
) -> Turn:
    policy = context.config.team.roles[role].policy
    tokenizer = context.tokenizers[policy]
    decoded = replace(answer, text=str(tokenizer.decode(answer.token_ids, skip_special_tokens=True)))
    seen = str(tokenizer.decode(prompt, skip_special_tokens=True))
    candidate = Candidate(decoded, 0.0, reward, _weighted_reward(reward, context.config))
    return Turn(index, role, policy, [{"role": "user", "content": seen}], prompt, [candidate], 0)


def _weighted_reward(reward: float, config: RunConfig) -> float:
    return config.algorithm.team_weight * reward


def _fail(episode: Episode, error: str) -> None:
    episode.failed, episode.error, episode.outcome = True, error, f"failed: {error}"[:200]
    episode.siblings = ""

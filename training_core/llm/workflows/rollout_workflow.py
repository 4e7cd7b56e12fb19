"""Custom rollout workflows with AReaL's interface: K episodes of each task, compared as wholes.

A rejected episode is not trained on, nor is one whose reward function returns None, or whose prompt leaves no room in the
model's context. One that raises counts as failed.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from training_core.config.rollout import RolloutWorkflow as Section
from training_core.errors import DataError, EngineFailure, NoReward, PromptTooLong
from training_core.event_loop import in_process_loop
from training_core.llm.agents.session import SessionSpec
from training_core.llm.environments.dataset import Dataset
from training_core.llm.environments.host import describe
from training_core.llm.generation.base import Interrupted, SamplingSettings
from training_core.llm.generation.prompt_checks import check_reward, check_sequence
from training_core.llm.rollout_workflows.api import (
    EpisodeResult,
    GenerationHyperparameters,
    ModelResponse,
    RolloutWorkflow,
    RowData,
    workflow_tokenizer,
)
from training_core.llm.rollout_workflows.areal import make_reward_function, make_workflow
from training_core.llm.rollout_workflows.inference_engine import (
    RUNNING_EPISODE,
    InferenceEngine,
    RunningEpisode,
)
from training_core.llm.rollout_workflows.tensors import (
    is_tensors,
    sequences_from_responses,
    token_sequences_of,
)
from training_core.llm.serving.batching import EpisodeNoise
from training_core.llm.serving.sequences import TokenSequence, add_turn
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.episodes import sampling_settings
from training_core.llm.workflows.lockstep import EpisodeKind
from training_core.llm.workflows.task_episodes import (
    complete,
    play_concurrently,
    task_episodes,
    turn_discount_of,
)
from training_core.seeding import NoiseStream
from training_core.types import Answer, Episode, Prompt

STREAMS = NoiseStream.ROLLOUT_WORKFLOWS, NoiseStream.ROLLOUT_WORKFLOW_EVALUATION


@dataclass
class _PlayedEpisode:
    """An episode and what its workflow returned."""

    item: SessionSpec
    version: int
    """Version of the first role's policy at the start: used for tokens whose versions the result does not contain."""
    result: EpisodeResult = None
    responses: list[tuple[str, ModelResponse]] = field(default_factory=list)
    """(role, response) of the episode's calls."""

    def fail(self, error: str) -> None:
        """Mark the episode as failed."""
        self.item.episode.fail(error)


class _RoleEngine:
    """A role of the context, as an engine."""

    def __init__(self, context: RolloutContext, role: str, settings: SamplingSettings) -> None:
        self.version = context.version(context.config.team.roles[role].policy)
        self._generate = context.generate[context.config.team.roles[role].policy]
        self._settings = settings

    def generate(
        self, prompts: Sequence[Prompt], settings: SamplingSettings, interrupted: Interrupted | None = None
    ) -> list[list[Answer]]:
        """Generate with the role's sampling settings. Raises EngineFailure if a request's settings differ from them."""
        expected = replace(self._settings, max_tokens=settings.max_tokens, stop=settings.stop)
        if settings != expected:
            raise EngineFailure(
                "a request has other sampling settings than its role",
                remedy="pass on the gconfig that the workflow was constructed with (team.roles.*.sampling sets it)",
            )
        return self._generate(prompts, settings)

    def load_weights(self, state: Any, version: int) -> None:
        """Reject new weights: the run publishes them, not the workflow."""
        raise EngineFailure("a workflow of a run cannot load weights; the run publishes them")


def play_rollout_workflows(
    tasks: Sequence[int], context: RolloutContext, kind: EpisodeKind = "train"
) -> list[Episode]:
    """Play tasks by the config's workflow."""
    config, section = context.config, context.config.workflow
    assert isinstance(section, Section), "this workflow is for classes with AReaL's interface"
    settings = {role: sampling_settings(config, role, kind) for role in config.team.order}
    first = config.team.order[0]
    workflow = make_workflow(
        section,
        _gconfig(settings[first]),
        workflow_tokenizer(context.tokenizers[config.team.roles[first].policy]),
        make_reward_function(section),
        config.environment.path if isinstance(config.environment, Dataset) else "",
    )
    engines = {role: _RoleEngine(context, role, settings[role]) for role in config.team.order}
    items = task_episodes(tasks, context, kind, STREAMS)
    played = [_PlayedEpisode(item, engines[first].version) for item in items]
    engine = InferenceEngine(engines)

    async def play(played: _PlayedEpisode) -> None:
        await _play(played, workflow, engine, first)

    try:
        asyncio.run(in_process_loop(play_concurrently(played, play, _PlayedEpisode.fail, section)))
    finally:
        engine.destroy()
    return complete(
        [episode for one in played for episode in _finished_episodes(one, context, section)], config
    )


async def _play(
    played: _PlayedEpisode, workflow: RolloutWorkflow, engine: InferenceEngine, first_role: str
) -> None:
    episode, running = played.item.episode, RunningEpisode(EpisodeNoise(*played.item.noise))
    RUNNING_EPISODE.set(running)
    episode.started = time.time()
    try:
        played.result = await workflow.arun_episode(engine, RowData(played.item.data))
        played.responses = running.responses
        episode.outcome = "rejected" if played.result is None else ""
    except NoReward:
        episode.unscored, episode.outcome = 1, "no reward"
    except PromptTooLong as error:
        episode.overlong = episode.outcome = str(error)
    finally:
        episode.ended = time.time()
        episode.add_reward_parts(first_role, running.reward_parts)


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
    played: _PlayedEpisode, context: RolloutContext, section: Section
) -> Iterator[Episode]:
    """What was played: one episode, or one for each sequence if a result has several without role names."""
    episode = played.item.episode
    try:
        sequences = _sequences_of(played, context)
    except Exception as error:
        episode.fail(describe(error))
        sequences = []
    if len(sequences) < 2 or not is_tensors(played.result):
        yield _with_turns(episode, sequences, context, section)
        return
    for row, sequence in enumerate(sequences):
        single = replace(episode, id=f"{episode.id}.{row}", turns=[], stages=[])
        yield _with_turns(single, [sequence], context, section)


def _sequences_of(played: _PlayedEpisode, context: RolloutContext) -> list[TokenSequence]:
    """The sequences of an episode's result, each with its role, replaced by the engine's record of its calls where they match.

    A conversation rendered again from text may have other ids than the sampled ones; the calls have the sampled ids.
    Raises EnvironmentFailure, DataError.
    """
    roles, first = context.config.team.roles, context.config.team.order[0]
    discount = turn_discount_of(context.config)
    if discount is not None and is_tensors(played.result):
        raise DataError(
            'the workflow returned tensors, which have one reward per sequence; workflow.export_style = "individual" needs '
            "interactions or an agent with queues.",
            remedy="Remove export_style and turn_discount, or return interactions",
        )
    sequences = token_sequences_of(played.result, played.version, by_call=discount is not None)
    if not is_tensors(played.result):
        played.item.episode.turn_discount = discount
    elif len(sequences) == 1 and played.responses:
        sequences = sequences_from_responses(sequences[0], played.responses, first)
    sequences = [sequence._replace(role=sequence.role or first) for sequence in sequences]
    for prompt, answer, reward, role in sequences:
        if role not in roles:
            raise DataError(f"there is no role {role!r}; roles are {', '.join(roles)}")
        policy = roles[role].policy
        check_reward(reward)
        check_sequence(prompt, answer, len(context.tokenizers[policy]), context.version(policy))
    return sequences


def _with_turns(
    episode: Episode, sequences: Sequence[TokenSequence], context: RolloutContext, section: Section
) -> Episode:
    for sequence in sequences:
        policy = context.config.team.roles[sequence.role].policy
        add_turn(episode, sequence, policy, context.tokenizers[policy], context.config.algorithm.team_weight)
    if sequences:
        total = sum(sequence.reward for sequence in sequences)
        episode.success = total >= section.success_at
        episode.outcome = f"reward {total:g}"
    return episode

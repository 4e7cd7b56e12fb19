"""External rollouts: K records of each prompt, produced by any program and delivered by a rollout buffer service.

The group is (prompt, role), as for whole episodes. The policy's output arrives as token ids with logprobs and
versions, or as text without sampling logprobs; the learner then computes them with the weights at the start of the
update.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

from training_core.config.rollout import RolloutBuffer
from training_core.llm.external.records import RecordReader, train_episodes
from training_core.llm.external.source import RolloutSource
from training_core.llm.workflows.context import RolloutContext
from training_core.llm.workflows.independent import play_independent
from training_core.llm.workflows.lockstep import EpisodeKind
from training_core.llm.workflows.overlong import apply_overlong_penalty
from training_core.types import Episode


def play_rollout_buffer(tasks: Sequence[int], context: RolloutContext) -> list[Episode]:
    """As many groups as there are tasks. Raises BufferFailure if they do not arrive."""
    source, reader = _source(context)
    with _engine(context, "train") as engine_url:
        groups = source.take(len(tasks), engine_url)
    episodes = train_episodes(groups, reader, context.first)
    apply_overlong_penalty(episodes, context.config)
    return episodes


def evaluate_rollout_buffer(
    tasks: Sequence[int], context: RolloutContext, kind: Literal["eval", "eval_sampled"]
) -> list[Episode]:
    """The generator plays workflow.evaluation_file; without one the held-out tasks are played here."""
    workflow = context.config.workflow
    if not (isinstance(workflow, RolloutBuffer) and workflow.evaluation_file):
        return play_independent(tasks, context, kind)
    source, reader = _source(context)
    with _engine(context, kind) as engine_url:
        groups = source.evaluate(context.iteration, kind, engine_url)
    episodes = []
    for task in tasks:
        if task < len(groups):
            episode = reader.episode(groups[task][0], kind, str(task))
            episode.probe = task < context.config.evaluation.probes
            episodes.append(episode)
    apply_overlong_penalty(episodes, context.config)
    return episodes


def _engine(context: RolloutContext, kind: EpisodeKind) -> AbstractContextManager[str]:
    """The server that generators call: the config's, or the run's own policies."""
    if context.served_policies is not None:
        return context.served_policies.serving(context.generate, kind)
    workflow = context.config.workflow
    return nullcontext(workflow.engine_url if isinstance(workflow, RolloutBuffer) else "")


def _source(context: RolloutContext) -> tuple[RolloutSource, RecordReader]:
    workflow = context.config.workflow
    assert isinstance(workflow, RolloutBuffer) and context.external is not None, "only of this workflow"
    reader = RecordReader(
        context.config, workflow, context.tokenizers, context.attempt, context.iteration, context.version
    )
    return context.external, reader

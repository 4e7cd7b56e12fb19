"""External rollouts: K records of each prompt, produced by any program and delivered by a rollout buffer service.

The group is (prompt, role), as for whole episodes. The policy's output arrives as token ids with logprobs and
versions, or as text without sampling logprobs; the learner then computes them with the weights at the start of the
update.
"""

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Literal

from training_core.config.rollout import RolloutBuffer
from training_core.llm.external.records import Reader, train_episodes
from training_core.llm.external.source import RolloutSource
from training_core.llm.workflows.context import Table
from training_core.llm.workflows.independent import play_independent
from training_core.llm.workflows.overlong import charge_overlong
from training_core.llm.workflows.served_policies import Kind
from training_core.types import Episode


def play_rollout_buffer(tasks: Sequence[int], table: Table) -> list[Episode]:
    """As many groups as there are tasks. Raises BufferFailure if they do not arrive."""
    source, reader = _source(table)
    with _engine(table, "train") as engine_url:
        groups = source.take(len(tasks), engine_url)
    episodes = train_episodes(groups, reader, table.first)
    charge_overlong(episodes, table.config)
    return episodes


def evaluate_rollout_buffer(
    tasks: Sequence[int], table: Table, kind: Literal["eval", "eval_sampled"]
) -> list[Episode]:
    """The generator plays workflow.evaluation_file; without one the held-out tasks are played here."""
    workflow = table.config.workflow
    if not (isinstance(workflow, RolloutBuffer) and workflow.evaluation_file):
        return play_independent(tasks, table, kind)
    source, reader = _source(table)
    with _engine(table, kind) as engine_url:
        groups = source.evaluate(table.iteration, kind, engine_url)
    episodes = []
    for task in tasks:
        if task < len(groups):
            episode = reader.episode(groups[task][0], kind, str(task))
            episode.probe = task < table.config.evaluation.probes
            episodes.append(episode)
    charge_overlong(episodes, table.config)
    return episodes


def _engine(table: Table, kind: Kind) -> AbstractContextManager[str]:
    """The server that generators call: the config's, or the run's own policies."""
    if table.served is not None:
        return table.served.serving(table.generate, kind)
    workflow = table.config.workflow
    return nullcontext(workflow.engine_url if isinstance(workflow, RolloutBuffer) else "")


def _source(table: Table) -> tuple[RolloutSource, Reader]:
    workflow = table.config.workflow
    assert isinstance(workflow, RolloutBuffer) and table.outside is not None, "only of this workflow"
    reader = Reader(table.config, workflow, table.tokenizers, table.attempt, table.iteration, table.version)
    return table.outside, reader

"""The driver's loop: collect, update, publish, evaluate, checkpoint.

The synchronous loop is on policy, with one version per iteration. In the asynchronous loop tasks are played in the background
while the policies are updated: `collect` waits for a batch of finished tasks while others are still played (see
workers.actors.rollouts). `rollout.staleness` bounds how far play runs ahead of the update (see
training_core.llm.serving.admission). With 0, no task begins before the weights are published, and all results equal the
synchronous loop's. After AReaL (arXiv 2505.24298).
"""

import logging
import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from training_core.config.experiment import ExperimentConfig
from training_core.errors import CheckpointError, EnvironmentFailure, StopRequested
from workers.driver.checkpointing import CheckpointKeeper, scheduled
from workers.driver.run_events import RunEvents
from workers.protocol import EpisodeFacts, Started, TrainingBackend

log = logging.getLogger(__name__)
ENDS = {"stop": "stopped", "pause": "paused"}
"""Command -> final state of the run."""


TRAINING = "train"
_ROUNDS = {TRAINING: "iterations"}
_CORRECT = "Correct the agent or the environment, and try it with a dry run before you launch again"


@dataclass
class _Seen:
    """Outcomes of one kind of play."""

    in_a_row: int = 0
    """Number of latest consecutive rounds in which all episodes failed."""
    completed: int = 0
    """Episodes that did not fail."""
    failed: int = 0
    error: str = ""
    """Error of the last recorded failed episode."""


class FailureLimit:
    """Counts rounds in which all episodes failed, by kind of play: training, greedy evaluation, sampled evaluation."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds
        self._seen: dict[str, _Seen] = {}

    def record(self, kind: str, episodes: Sequence[EpisodeFacts], rounds: float | None = None) -> None:
        """Add a round. Raises EnvironmentFailure after `rounds` consecutive rounds in which all episodes failed (default: the
        config's number).
        """
        seen = self._seen.setdefault(kind, _Seen())
        failed = [
            episode for episode in episodes if episode.failed or (episode.overlong and not episode.turns)
        ]
        seen.completed += len(episodes) - len(failed)
        if not failed:
            seen.in_a_row = 0 if episodes else seen.in_a_row
            return
        seen.failed, seen.error = seen.failed + len(failed), failed[0].error or failed[0].overlong
        seen.in_a_row = seen.in_a_row + 1 if len(failed) == len(episodes) else 0
        if seen.in_a_row >= (self._rounds if rounds is None else rounds):
            raise EnvironmentFailure(
                f"all episodes failed in {seen.in_a_row} {_ROUNDS.get(kind, 'evaluations')} in a row, {len(failed)} in the last "
                f"one.{_one(seen)}",
                remedy=f"{_CORRECT}; run.failure_patience = {self._rounds} sets the limit of such rounds",
            )

    def finish(self) -> None:
        """Raise EnvironmentFailure if the run never completed an episode of a kind that it played."""
        for kind, seen in self._seen.items():
            if seen.failed and not seen.completed:
                phase = "training" if kind == TRAINING else "evaluation"
                raise EnvironmentFailure(
                    f"all {seen.failed} episodes of {phase} failed.{_one(seen)}", remedy=_CORRECT
                )


def _one(seen: _Seen) -> str:
    return f" One of them: {seen.error}." if seen.error else ""


class End(NamedTuple):
    """How an attempt ended."""

    state: str
    """Final state of the run."""
    iterations: int
    """Completed iterations."""
    reason: str = ""
    """Why it finished before the last iteration."""


@dataclass
class Run:
    """State of the loop of one attempt; the same for local runs and runs on Ray."""

    config: ExperimentConfig
    backend: TrainingBackend
    run_events: RunEvents
    keeper: CheckpointKeeper
    command: Callable[[], str | None]
    """The requested command: "stop", "pause" or None. Raises Superseded if a newer attempt exists."""
    completed: int = field(default=0, init=False)
    """Number of completed iterations, including those of earlier attempts."""
    secured: int = field(default=0, init=False)
    """The last iteration that `secure` tried to save."""
    failure_limit: FailureLimit = field(init=False)

    def __post_init__(self) -> None:
        self.failure_limit = FailureLimit(self.config.run.failure_patience)


def train(run: Run, resume_from: Path | None, *, forks: bool = False) -> End:
    """Train until the last iteration, a stop request, or early stopping.

    With `forks` the checkpoint is another run's: iterations continue from it, after an evaluation of it.
    """
    first, started = begin(run, resume_from, forks=forks)
    if plays_ahead(run.config):
        run.backend.play_ahead(first, run.keeper.admission)
    return iterate(run, first, started)


def plays_ahead(config: ExperimentConfig) -> bool:
    """Whether the loop is the asynchronous one."""
    return config.overlaps


def begin(run: Run, resume_from: Path | None, *, forks: bool) -> tuple[int, Started]:
    """Start the workers. Returns the number of completed iterations, and facts about the workers."""
    first = run.keeper.recall(resume_from, run.run_events, forks=forks)
    run.run_events.resumed_at(first)
    run.completed = first
    started = run.backend.start(resume_from)
    run.run_events.running(started, first)
    if forks and evaluates(run.config):
        evaluate(run, first)
    return first, started


def iterate(run: Run, first: int, started: Started) -> End:
    """Run iterations until the attempt ends. Raises EnvironmentFailure if all episodes fail for too long."""
    for iteration in range(first + 1, run.config.run.iterations + 1):
        try:
            collect(run, iteration)
        except StopRequested:
            return stop(run)
        if iteration == 1 and evaluates(run.config):
            evaluate_base(run, started)
        learn(run, iteration)
        run.completed = iteration
        if evaluates(run.config) and due(iteration, run.config.evaluation.every, run.config.run.iterations):
            evaluate(run, iteration)
        reason = run.keeper.early_stopping.record(
            iteration, run.run_events.measured(run.config.checkpoint.best_of, iteration)
        )
        command = run.command()
        if command or reason or run.keeper.due(iteration):
            checkpoint(run, iteration)
        if reason and iteration < run.config.run.iterations:
            run.failure_limit.finish()
            return End("finished", iteration, reason)
        if command and iteration < run.config.run.iterations:
            return End(ENDS[command], iteration)
    run.failure_limit.finish()
    return End("finished", run.config.run.iterations)


def stop(run: Run) -> End:
    """Stop during a collection, without the iteration that it belongs to."""
    if unsaved(run):
        checkpoint(run, run.completed)
    return End(ENDS[run.command() or "stop"], run.completed)


def secure(run: Run) -> None:
    """Write a checkpoint of the last completed iteration while the next one is being played. A run that was asked to stop then
    loses nothing if it is killed before that iteration completes. Called only while weights do not change.

    An error is logged, not raised: the current iteration may still complete, and its checkpoint may succeed.
    """
    if not unsaved(run) or run.secured == run.completed:
        return
    run.secured = run.completed
    try:
        checkpoint(run, run.completed)
    except CheckpointError as error:
        log.warning("the last completed iteration could not be saved before the next one ends: %s", error)


def unsaved(run: Run) -> bool:
    """Whether the last completed iteration has no checkpoint yet."""
    return bool(run.completed) and run.completed != run.keeper.latest


def collect(run: Run, iteration: int) -> None:
    """Play the iteration's tasks with the current weights, or wait for a batch of tasks played in the background."""
    collected = run.backend.collect(iteration)
    run.run_events.collected(iteration, collected)
    run.keeper.admission = collected.ahead.admission if collected.ahead else None
    run.failure_limit.record(TRAINING, collected.facts, math.inf if collected.failures_limited else None)


def learn(run: Run, iteration: int) -> None:
    """Update every trained policy and, if due, publish its weights."""
    start = time.time()
    updated = run.backend.update(iteration)
    updated_at = time.time()
    run.run_events.updated(iteration, updated, updated_at - start)
    synced = run.backend.publish(iteration) if publishes(run.config, iteration) else []
    run.run_events.completed(iteration, synced, time.time() - updated_at)
    if run.run_events.system_due():
        run.run_events.system(iteration, run.backend.system())


def evaluate(run: Run, iteration: int) -> None:
    """Play the held-out tasks, greedily and sampled as configured. A stop request while waiting for them ends the evaluation."""
    with suppress(StopRequested):
        for kind, prefix in evaluations(run.config):
            collected = run.backend.evaluate(iteration, kind, run.config.evaluation_episodes(kind))
            run.run_events.evaluated(iteration, prefix, collected, {})
            run.failure_limit.record(prefix, collected.facts)
        run.run_events.all_evaluated(iteration)


def evaluate_base(run: Run, started: Started) -> None:
    """Evaluate at step 0, after the first collection (which has the same weights) so that curves begin early.

    If metrics are stored with the base models, only the probes are played, for their transcripts.
    """
    with suppress(StopRequested):
        for kind, prefix in evaluations(run.config):
            cached = started.base_evaluation.get(prefix, {})
            episodes = run.config.evaluation.probes if cached else run.config.evaluation_episodes(kind)
            collected = run.backend.evaluate(0, kind, episodes)
            run.run_events.evaluated(0, prefix, collected, cached)
            run.failure_limit.record(prefix, collected.facts)
        run.run_events.all_evaluated(0)


def checkpoint(run: Run, iteration: int) -> None:
    """Write a checkpoint, and delete those that retention no longer includes."""
    start = time.time()
    run.keeper.save(run.backend, run.run_events, iteration)
    run.run_events.phase("checkpoint", iteration, start)


def publishes(config: ExperimentConfig, iteration: int) -> bool:
    """Whether rollout workers get the weights after this update: at every interval, and before an evaluation or a checkpoint."""
    last = config.run.iterations
    evaluated = evaluates(config) and due(iteration, config.evaluation.every, last)
    return evaluated or scheduled(config, iteration) or due(iteration, config.publish_every, last)


def evaluations(config: ExperimentConfig) -> list[tuple[Any, str]]:
    """(kind, metric prefix) of the configured evaluations."""
    greedy = [("eval", "eval")] if config.evaluation.greedy else []
    sampled = [("eval_sampled", "eval_sampled")] if config.evaluation.sampled else []
    return [*greedy, *sampled]


def evaluates(config: ExperimentConfig) -> bool:
    """Whether the run has evaluations."""
    return bool(config.evaluation.every)


def due(iteration: int, every: int, last: int) -> bool:
    """Whether something that happens every `every` iterations (0: never) and at the last one happens now."""
    return iteration == last or (every > 0 and iteration % every == 0)

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
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from training_core.config.experiment import ExperimentConfig
from training_core.errors import CheckpointError, StopRequested
from workers.driver.checkpointing import CheckpointKeeper, scheduled
from workers.driver.evaluations import Evaluations, evaluates
from workers.driver.failure_limit import TRAINING, FailureLimit
from workers.driver.run_events import RunEvents
from workers.protocol import Started, TrainingBackend

log = logging.getLogger(__name__)
ENDS = {"stop": "stopped", "pause": "paused"}
"""Command -> final state of the run."""


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
    evaluations: Evaluations = field(init=False)

    def __post_init__(self) -> None:
        self.failure_limit = FailureLimit(self.config.run.failure_patience)
        parts = self.config, self.backend, self.run_events, self.keeper
        self.evaluations = Evaluations(*parts, self.failure_limit)


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
    if (forks or run.keeper.unevaluated) and evaluates(run.config):
        run.evaluations.play(first, counts=not forks)
    return first, started


def iterate(run: Run, first: int, started: Started) -> End:
    """Run iterations until the attempt ends. Raises EnvironmentFailure if all episodes fail for too long."""
    for iteration in range(first + 1, run.config.run.iterations + 1):
        try:
            collect(run, iteration)
        except StopRequested:
            return stop(run)
        if iteration == 1 and evaluates(run.config):
            run.evaluations.play_base(started)
        learn(run, iteration)
        run.completed = iteration
        if evaluates(run.config) and due(iteration, run.config.evaluation.every, run.config.run.iterations):
            run.evaluations.play(iteration)
        reason = run.evaluations.reason_to_end(iteration)
        command = run.command()
        if command or reason or run.keeper.due(iteration):
            checkpoint(run, iteration)
        if reason and iteration < run.config.run.iterations:
            return finish(run, reason)
        if command and iteration < run.config.run.iterations:
            return End(ENDS[command], iteration)
    return finish(run)


def finish(run: Run, reason: str = "") -> End:
    """End after the last evaluation. Raises EnvironmentFailure if no episode of a kind was completed."""
    run.evaluations.collect(run.completed, wait=True)
    run.failure_limit.finish()
    return End("finished", run.completed, reason)


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


def due(iteration: int, every: int, last: int) -> bool:
    """Whether something that happens every `every` iterations (0: never) and at the last one happens now."""
    return iteration == last or (every > 0 and iteration % every == 0)

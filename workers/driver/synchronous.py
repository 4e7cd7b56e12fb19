"""The synchronous loop: collect, update, publish, evaluate, checkpoint. On policy, one version per iteration."""

import logging
import math
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training_core.config.experiment import ExperimentConfig
from training_core.config.run import RunConfig
from training_core.errors import CheckpointError, StopRequested
from workers.driver.checkpointing import CheckpointKeeper, scheduled
from workers.driver.failure_limit import TRAINING, FailureLimit
from workers.driver.run_events import RunEvents
from workers.protocol.records import Started, TrainingBackend

log = logging.getLogger(__name__)
ENDS = {"stop": "stopped", "pause": "paused"}
"""Wish -> the state that fulfils it."""


@dataclass
class Run:
    """One attempt: what the loop works with. The same for a local run and one spread by Ray."""

    config: ExperimentConfig
    backend: TrainingBackend
    run_events: RunEvents
    keeper: CheckpointKeeper
    wanted: Callable[[], str | None]
    """What was asked of the run: "stop", "pause" or None. Raises Superseded when it must leave at once."""
    completed: int = field(default=0, init=False)
    """Iterations that are completed, those of earlier attempts included."""
    secured: int = field(default=0, init=False)
    """The last of them that `secure` tried to save."""
    failure_limit: FailureLimit = field(init=False)

    def __post_init__(self) -> None:
        self.failure_limit = FailureLimit(self.config.run.failure_patience)


def train(run: Run, resume_from: Path | None, *, forks: bool = False) -> tuple[str, int]:
    """Play the run to its end, or until it is asked to stop. Returns its last state and the iterations completed.

    With `forks` the checkpoint is another run's: iterations go on from it, and it is evaluated before anything else.
    """
    return go_on(run, *begin(run, resume_from, forks=forks))


def begin(run: Run, resume_from: Path | None, *, forks: bool) -> tuple[int, Started]:
    """Bring up the workers. Returns the iterations that are completed, and what is known of the workers."""
    first = run.keeper.recall(resume_from, run.run_events, forks=forks)
    run.run_events.resumed_at(first)
    run.completed = first
    started = run.backend.start(resume_from)
    run.run_events.running(started, first)
    if forks and evaluates(run.config):
        evaluate(run, first)
    return first, started


def go_on(run: Run, first: int, started: Started) -> tuple[str, int]:
    """Iteration after iteration, until the end or a wish. Raises EnvironmentFailure where nothing but failed episodes comes."""
    for iteration in range(first + 1, run.config.run.iterations + 1):
        try:
            collect(run, iteration)
        except StopRequested:
            return leave(run)
        if iteration == 1 and evaluates(run.config):
            evaluate_base(run, started)
        learn(run, iteration)
        run.completed = iteration
        if evaluates(run.config) and due(iteration, run.config.evaluation.every, run.config.run.iterations):
            evaluate(run, iteration)
        command = run.wanted()
        if command or run.keeper.due(iteration):
            checkpoint(run, iteration)
        if command and iteration < run.config.run.iterations:
            return ENDS[command], iteration
    run.failure_limit.finish()
    return "finished", run.config.run.iterations


def leave(run: Run) -> tuple[str, int]:
    """Stop before the next iteration has anything to learn from."""
    if unsaved(run):
        checkpoint(run, run.completed)
    return ENDS[run.wanted() or "stop"], run.completed


def secure(run: Run) -> None:
    """Write a checkpoint of the last completed iteration while the next one is still played, so that a run that is asked to
    stop loses nothing if it is ended before that iteration is complete. Called while weights stand still.

    An error is logged, not raised: the iteration under way may complete, and the checkpoint after it may succeed.
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
    """Play the iteration's tasks with the weights as they are; or take what was played ahead."""
    collected = run.backend.collect(iteration)
    run.run_events.collected(iteration, collected)
    run.keeper.admission = collected.ahead.admission if collected.ahead else None
    # the trainer of small networks sees environments in mid-episode too, and judges each iteration for itself
    bears = None if isinstance(run.config, RunConfig) else math.inf
    run.failure_limit.look(TRAINING, collected.facts, bears)


def learn(run: Run, iteration: int) -> None:
    """Update every trained policy and, where it is time, publish its weights."""
    start = time.time()
    updated = run.backend.update(iteration)
    learnt = time.time()
    run.run_events.updated(iteration, updated, learnt - start)
    synced = run.backend.publish(iteration) if publishes(run.config, iteration) else []
    run.run_events.completed(iteration, synced, time.time() - learnt)
    if run.run_events.system_due():
        run.run_events.system(iteration, run.backend.system())


def evaluate(run: Run, iteration: int) -> None:
    """Play the held-out tasks, greedily and sampled as the config says; none where a stop is asked for while they are waited for."""
    with suppress(StopRequested):
        for kind, prefix in evaluations(run.config):
            collected = run.backend.evaluate(iteration, kind, run.config.evaluation_episodes(kind))
            run.run_events.evaluated(iteration, prefix, collected, {})
            run.failure_limit.look(prefix, collected.facts)
        run.run_events.all_evaluated(iteration)


def evaluate_base(run: Run, started: Started) -> None:
    """The figures of step 0, after the first collection (which has the same weights) so that curves begin early.

    Where the figures were kept with the base models, only the probes are played, to be read.
    """
    with suppress(StopRequested):
        for kind, prefix in evaluations(run.config):
            cached = started.base_evaluation.get(prefix, {})
            episodes = run.config.evaluation.probes if cached else run.config.evaluation_episodes(kind)
            collected = run.backend.evaluate(0, kind, episodes)
            run.run_events.evaluated(0, prefix, collected, cached)
            run.failure_limit.look(prefix, collected.facts)
        run.run_events.all_evaluated(0)


def checkpoint(run: Run, iteration: int) -> None:
    """Write one, and delete what retention no longer wants."""
    start = time.time()
    run.keeper.save(run.backend, run.run_events, iteration)
    run.run_events.phase("checkpoint", iteration, start)


def publishes(config: ExperimentConfig, iteration: int) -> bool:
    """Whether those that generate get the weights after this update: at every interval, and before these are shown or kept."""
    last = config.run.iterations
    shown = evaluates(config) and due(iteration, config.evaluation.every, last)
    return shown or scheduled(config, iteration) or due(iteration, config.publish_every, last)


def evaluations(config: ExperimentConfig) -> list[tuple[Any, str]]:
    """(kind, metric prefix) of the evaluations that the config asks for."""
    greedy = [("eval", "eval")] if config.evaluation.greedy else []
    sampled = [("eval_sampled", "eval_sampled")] if config.evaluation.sampled else []
    return [*greedy, *sampled]


def evaluates(config: ExperimentConfig) -> bool:
    """Whether the run is evaluated at all."""
    return bool(config.evaluation.every)


def due(iteration: int, every: int, last: int) -> bool:
    """Whether what happens every so often (0: never) and at the end happens now."""
    return iteration == last or (every > 0 and iteration % every == 0)

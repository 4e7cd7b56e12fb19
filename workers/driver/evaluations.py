"""The evaluations of a run: played by the workers of the training, which waits, or by an evaluator during the next iterations.

One evaluation is under way at a time: if the next one is due before it has ended, training waits, so that every evaluation is
played, and a run never waits longer than with evaluation.mode = "inline". Its points are at the iteration of their weights. The
checkpoint of that iteration is retained until then, and ranked by its metric; early stopping counts it then.
"""

import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

from training_core.config.experiment import ExperimentConfig
from training_core.errors import StopRequested
from workers.driver.checkpointing import CheckpointKeeper
from workers.driver.failure_limit import FailureLimit
from workers.driver.run_events import RunEvents
from workers.protocol import Collected, EpisodeKind, Started, TrainingBackend


class Play(NamedTuple):
    """One kind of evaluation."""

    kind: EpisodeKind
    episodes: int
    cached: dict[str, float]
    """Metrics that replace those of the episodes; empty for none."""


@dataclass
class Evaluations:
    """Plays and reports the evaluations of one attempt."""

    config: ExperimentConfig
    backend: TrainingBackend
    run_events: RunEvents
    keeper: CheckpointKeeper
    failure_limit: FailureLimit
    _reason: str = field(default="", init=False)
    """Why the run ends early; empty if it continues."""
    _plays: list[Play] = field(default_factory=list, init=False)
    """The evaluation under way in the evaluator; empty if there is none."""
    _counts: bool = field(default=True, init=False)
    """Whether the best checkpoint and early stopping depend on it."""

    def play(self, iteration: int, *, counts: bool = True) -> None:
        """Play the held-out tasks, greedily and sampled as configured. A stop request while waiting for them ends the evaluation.

        `counts`: whether the run's best checkpoint and early stopping depend on it.
        """
        plays = [Play(kind, self.config.evaluation_episodes(kind), {}) for kind in self._kinds()]
        self._play(iteration, plays, counts=counts)

    def play_base(self, started: Started) -> None:
        """Evaluate at step 0, after the first collection (which has the same weights) so that curves begin early.

        If metrics are stored with the base models, only the probes are played, for their transcripts.
        """
        plays = []
        for kind in self._kinds():
            cached = started.base_evaluation.get(kind, {})
            episodes = self.config.evaluation.probes if cached else self.config.evaluation_episodes(kind)
            plays.append(Play(kind, episodes, cached))
        self._play(0, plays, counts=False)

    def collect(self, completed: int, *, wait: bool = False) -> None:
        """Report the evaluation of the evaluator if it has ended, after `completed` iterations; with `wait` when it has ended.

        A stop request ends the wait: the evaluation is then lost. Raises EnvironmentFailure if all episodes fail for too long.
        """
        step = self.keeper.evaluating
        if step is None:
            return
        start = time.time()
        results = self.backend.evaluated(wait=wait)
        if wait and completed:
            self.run_events.waited(completed, time.time() - start)
        if results is None:
            return
        plays, self._plays, self.keeper.evaluating = self._plays, [], None
        for play, collected in zip(plays, results, strict=True):
            collected.figures[f"{play.kind}/lag"] = float(completed - step)
            self._report(step, play, collected)
        self.run_events.all_evaluated(step)
        if self._counts and self.config.checkpoint.is_best_by_evaluation:
            self.keeper.rank(self.run_events, step)
            self._measure(step)

    def reason_to_end(self, iteration: int) -> str:
        """Why the run ends after this iteration: its metric, or that of an evaluation that has ended; empty if it continues."""
        self.collect(iteration)
        if not (self.config.evaluates_beside and self.config.checkpoint.is_best_by_evaluation):
            self._measure(iteration)
        return self._reason

    def _measure(self, iteration: int) -> None:
        """Count the metric of an iteration for early stopping."""
        value = self.run_events.measured(self.config.checkpoint.best_of, iteration)
        self._reason = self._reason or self.keeper.early_stopping.record(iteration, value)

    def _kinds(self) -> list[EpisodeKind]:
        section = self.config.evaluation
        kinds: dict[EpisodeKind, bool] = {"eval": section.greedy, "eval_sampled": section.sampled}
        return [kind for kind, played in kinds.items() if played]

    def _play(self, iteration: int, plays: list[Play], *, counts: bool) -> None:
        if self.config.evaluates_beside:
            self.collect(iteration, wait=True)
            if self.keeper.evaluating is None:  # otherwise the run stops
                self.backend.begin_evaluation(iteration, [(play.kind, play.episodes) for play in plays])
                self._plays, self._counts, self.keeper.evaluating = plays, counts, iteration
            return
        with suppress(StopRequested):
            for play in plays:
                self._report(iteration, play, self.backend.evaluate(iteration, play.kind, play.episodes))
            self.run_events.all_evaluated(iteration)

    def _report(self, iteration: int, play: Play, collected: Collected) -> None:
        self.run_events.evaluated(iteration, play.kind, collected, play.cached)
        self.failure_limit.record(play.kind, collected.facts)


def evaluates(config: ExperimentConfig) -> bool:
    """Whether the run has evaluations."""
    return bool(config.evaluation.every)

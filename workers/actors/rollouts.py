"""Rollouts: training episodes, played on request or taken from the collector, and evaluation episodes."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from training_core.config.run import RunConfig
from training_core.llm.external.source import read_external, save_external
from training_core.types import Episode
from workers.actors.collector import Collector
from workers.actors.player import Played, Player
from workers.actors.resampling import collect_informative
from workers.protocol.records import Ahead, EpisodeKind, Span


@dataclass(frozen=True)
class TrainingEpisodes:
    """The training episodes of one iteration."""

    episodes: list[Episode]
    spans: list[Span]
    queued: float
    """Earliest possible start of the episodes, in seconds since the epoch."""
    seconds: float
    """Time that the collection took, or waited for the collector."""
    left_out: int = 0
    """Number of uninformative tasks that others replaced."""
    ahead: Ahead | None = None


class Rollouts:
    """Plays with a player and, in the asynchronous loop, owns the collector."""

    def __init__(self, config: RunConfig, player: Player) -> None:
        self._config = config
        self._player = player
        self._collector: Collector | None = None
        self._external_before: dict[str, Any] | None = None
        """During a collection: the state of external rollouts after the last completed iteration, for checkpoints."""

    @property
    def figures(self) -> dict[str, float]:
        """Metrics of external rollouts; empty for other workflows."""
        return dict(self._player.external.figures) if self._player.external is not None else {}

    def play_ahead(
        self, completed: int, versions: Mapping[str, int], admission: dict[str, Any] | None
    ) -> None:
        """Start the collector after `completed` iterations."""
        self._collector = Collector(self._config, self._player)
        self._collector.start(completed, versions, admission)

    def collect(self, iteration: int, versions: Mapping[str, int]) -> TrainingEpisodes:
        """Play the iteration's tasks, or wait for a batch of the collector."""
        if self._collector is not None:
            return _taken(self._collector, iteration)
        start = time.time()
        sampled = collect_informative(self._player, self._config, iteration, versions.__getitem__)
        played, seconds = sampled.played, time.time() - start
        return TrainingEpisodes(played.episodes, played.spans, start, seconds, sampled.left_out)

    @contextmanager
    def collecting(self) -> Iterator[None]:
        """Within the block, `save` writes the state of external rollouts as it was before the block."""
        external = self._player.external
        self._external_before = deepcopy(external.state()) if external is not None else None
        try:
            yield
        finally:
            self._external_before = None

    def evaluate(
        self, iteration: int, kind: EpisodeKind, tasks: range, versions: Mapping[str, int]
    ) -> Played:
        """Play held-out tasks; in the asynchronous loop, in slots that training does not use."""
        first_slot = self._config.training_slots if self._collector else 0
        return self._player.evaluate(iteration, kind, tasks, versions.__getitem__, first_slot=first_slot)

    def published(self, iteration: int, versions: Mapping[str, int]) -> None:
        """Report a publication of weights to the collector."""
        if self._collector is not None:
            self._collector.published(iteration, versions)

    def restore(self, checkpoint: Path) -> None:
        """Load the state of external rollouts."""
        if self._player.external is not None:
            self._player.external.recall(read_external(checkpoint))

    def save(self, folder: Path) -> None:
        """Write the state of external rollouts after the last completed iteration."""
        if self._player.external is not None:
            save_external(folder, self._external_before or self._player.external.state())

    def close(self) -> None:
        """End background play and external rollouts."""
        if self._collector is not None:
            self._collector.close()
            self._collector = None
        self._player.close()


def _taken(collector: Collector, iteration: int) -> TrainingEpisodes:
    """A batch of the collector as the episodes of an iteration."""
    start = time.time()
    batch = collector.take()
    episodes = [replace(episode, iteration=iteration) for episode in batch.episodes]
    queued = min((episode.started for episode in episodes), default=start)
    return TrainingEpisodes(episodes, batch.spans, queued, time.time() - start, ahead=batch.ahead)

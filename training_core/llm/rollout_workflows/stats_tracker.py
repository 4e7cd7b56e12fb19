"""Durations of parts of a training script, under AReaL's names. Runs have the metrics `time/...` without it."""

import time
from collections.abc import Iterator
from contextlib import contextmanager


class StatsTracker:
    """Seconds by part, until export."""

    def __init__(self) -> None:
        self._seconds: dict[str, list[float]] = {}

    @contextmanager
    def record_timing(self, key: str) -> Iterator[None]:
        """Record the duration of the block."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self._seconds.setdefault(key, []).append(time.perf_counter() - start)

    def export(self) -> dict[str, float]:
        """Mean seconds of each part as `timeperf/<key>`, AReaL's names. Resets the seconds."""
        means = {f"timeperf/{key}": sum(seconds) / len(seconds) for key, seconds in self._seconds.items()}
        self._seconds = {}
        return means

"""Phases of a run that take much longer than usual."""

from collections import deque
from statistics import median

FACTOR, LEAST = 3.0, 1.0
"""A phase is slow if it takes FACTOR times the median and LEAST seconds more than it."""
ENOUGH, WINDOW = 5, 50
"""Minimum number of earlier durations, and the number of latest ones that the median is of."""
MOST = 200
"""Maximum number of lines of one attempt."""


class SlowPhases:
    """Compares each phase's duration with the median of its own."""

    def __init__(self) -> None:
        self._seconds: dict[str, deque[float]] = {}
        self._lines = 0

    def line(self, iteration: int, phase: str, seconds: float) -> str:
        """Add a duration. Returns a line for the run's log if the phase was slow, otherwise an empty one."""
        earlier = self._seconds.setdefault(phase, deque(maxlen=WINDOW))
        usual = median(earlier) if len(earlier) >= ENOUGH else seconds
        earlier.append(seconds)
        if seconds < FACTOR * usual or seconds < usual + LEAST or self._lines >= MOST:
            return ""
        self._lines += 1
        return f"slow {phase} in iteration {iteration}: {seconds:.1f} s, its median is {usual:.1f} s"

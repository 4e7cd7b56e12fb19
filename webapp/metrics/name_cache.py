"""Names of stored metrics in memory: a batch of a run with many metrics does not ask the database for all of its names."""

from collections import OrderedDict
from collections.abc import Iterable
from threading import Lock

MOST_NAMES = 200_000
"""Maximum number of names of all runs, about 30 MB; the runs that were not used for the longest time are removed."""


class NameCache:
    """Ids of series by run and name; None for narrow ones. Only committed series may be added: an id never changes."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs: OrderedDict[str, dict[str, int | None]] = OrderedDict()
        self._count = 0

    def ids(self, run_id: str, keys: Iterable[str]) -> dict[str, int | None]:
        """Return the ids of those names that are in the cache."""
        with self._lock:
            names = self._runs.get(run_id)
            if names is None:
                return {}
            self._runs.move_to_end(run_id)
            return {key: names[key] for key in keys if key in names}

    def add(self, run_id: str, ids: dict[str, int | None]) -> None:
        """Add names; removes other runs above MOST_NAMES, and the run itself if it alone has more."""
        with self._lock:
            names = self._runs.setdefault(run_id, {})
            self._runs.move_to_end(run_id)
            self._count -= len(names)
            names |= ids
            self._count += len(names)
            while self._count > MOST_NAMES:
                _, removed = self._runs.popitem(last=False)
                self._count -= len(removed)

    @property
    def count(self) -> int:
        """Return the number of names."""
        return self._count

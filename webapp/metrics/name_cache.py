"""Names of stored metrics in memory: a batch of a run with many metrics does not ask the database for all of its names."""

from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime
from threading import Lock

from webapp.runs.models import Run

MOST_NAMES = 200_000
"""Maximum number of names of all runs, about 30 MB; the runs that were not used for the longest time are removed."""


class NameCache:
    """Ids of series by run and name; None for narrow ones. Only committed series may be added: an id never changes.

    A run is identified by its id and its time of creation, because a program may create a run with the id of a removed one.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._runs: OrderedDict[tuple[str, datetime], dict[str, int | None]] = OrderedDict()
        self._count = 0

    def ids(self, run: Run, keys: Iterable[str]) -> dict[str, int | None]:
        """Return the ids of those names that are in the cache."""
        with self._lock:
            names = self._runs.get((run.pk, run.created_at))
            if names is None:
                return {}
            self._runs.move_to_end((run.pk, run.created_at))
            return {key: names[key] for key in keys if key in names}

    def add(self, run: Run, ids: dict[str, int | None]) -> None:
        """Add names; removes other runs above MOST_NAMES, and the run itself if it alone has more."""
        with self._lock:
            names = self._runs.setdefault((run.pk, run.created_at), {})
            self._runs.move_to_end((run.pk, run.created_at))
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

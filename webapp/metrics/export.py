"""Series as CSV: every stored point, one row each."""

from collections.abc import Iterable, Iterator

from webapp.metrics.chunks import Points
from webapp.metrics.models import Series
from webapp.metrics.selectors import points_read
from webapp.runs.models import Run
from workers.http.csv_cells import cell_text

HEADER = "metric,attempt,step,time,value\n"
AT_ONCE = 20_000
"""Number of rows per chunk of the response."""


def series_csv(run: Run, keys: Iterable[str] = ()) -> Iterator[bytes]:
    """Yield rows by metric, then step, then attempt; all metrics if `keys` is empty. `time` is in seconds since the epoch."""
    wanted = Series.objects.filter(run=run).order_by("key").values_list("key", flat=True)
    named = set(keys)
    yield HEADER.encode()
    for key in wanted:
        if named and key not in named:
            continue
        points = points_read(run, key)
        for first in range(0, len(points.steps), AT_ONCE):
            yield _rows(key, points, slice(first, first + AT_ONCE))


def _rows(key: str, points: Points, part: slice) -> bytes:
    columns = (points.attempts[part], points.steps[part], points.times[part], points.values[part])
    name = str(cell_text(key))
    if '"' in name:  # a name has no comma and no line break
        name = '"' + name.replace('"', '""') + '"'
    rows = zip(*(column.tolist() for column in columns), strict=True)
    return "".join(
        f"{name},{attempt},{step},{time!r},{value!r}\n" for attempt, step, time, value in rows
    ).encode()

"""Outcomes of episodes without success: the quarter of the returns of the newest 10,000 stored episodes that a return is in."""

from collections.abc import Sequence

from django.db import connection

from webapp.agents.registry import agent_pages
from webapp.runs.models import Run
from webapp.transcripts.models import Episode

QUARTERS = [
    ("4", "highest quarter"),
    ("3", "third quarter"),
    ("2", "second quarter"),
    ("1", "lowest quarter"),
]
"""Quarter -> label, the best first."""
FEWEST = 4
"""Minimum number of stored episodes for quarters."""
FEW = 100
"""Newest episodes that show whether episodes of a run have success."""
RECENT = 10_000
"""Number of newest episodes that the quarters are of, so that their time does not grow with the run."""
_BOUNDS = """
SELECT count(*), percentile_cont(array[0.25, 0.5, 0.75]) WITHIN GROUP (ORDER BY episode_return), bool_or(success IS NOT NULL)
FROM (SELECT episode_return, success, failed FROM transcripts_episode WHERE run_id IN (%s, '') ORDER BY run_id, id DESC LIMIT %s) AS newest
WHERE NOT failed AND abs(episode_return) < 'infinity'
"""
Bounds = tuple[float, float, float]


def has_success(run: Run) -> bool:
    """Whether episodes of the run are solved or not; otherwise only their return rates them."""
    if agent_pages(run.config).tokens:
        return True
    newest = Episode.objects.of_run(run).order_by("-pk").values_list("success", flat=True)
    return any(success is not None for success in newest[:FEW])


def quarters_read(run: Run) -> Bounds | None:
    """Return the bounds of the quarters of the returns of the run's newest RECENT stored episodes, those with errors omitted.

    None for runs with success, for fewer than FEWEST episodes, and if most returns are equal.
    """
    if agent_pages(run.config).tokens:
        return None
    with connection.cursor() as database:
        database.execute(_BOUNDS, [run.pk, RECENT])
        count, bounds, success = database.fetchone()
    if count < FEWEST or success or bounds[0] == bounds[-1]:
        return None
    low, middle, high = bounds
    return low, middle, high


def quarter_of(value: float, bounds: Sequence[float]) -> int:
    """Return the quarter of a return, from 1 (lowest) to 4. A return on a bound belongs to the higher quarter."""
    return 1 + sum(value >= bound for bound in bounds)


def quarter_range(quarter: int, bounds: Bounds) -> tuple[float | None, float | None]:
    """Return (minimum, exclusive maximum) of a quarter; None without a limit."""
    edges = [None, *bounds, None]
    return edges[quarter - 1], edges[quarter]

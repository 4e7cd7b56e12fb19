"""What drivers say of themselves: packages, base models. Bounded as it is written, and again as it is read, since earlier versions
stored it whatever its size. `Run.objects` does not load it (webapp/runs/models.py).
"""

from collections.abc import Mapping
from typing import Any

import orjson
from django.db import connection

from webapp.runs.logs import server_says
from webapp.runs.models import Run
from workers.telemetry.limits import MAX_DATA

LARGEST_PART, MOST_PARTS = 16 << 10, 16
"""Characters and number of the parts that are shown of facts that are too large."""
_SIZED = "SELECT length(facts::text), CASE WHEN length(facts::text) <= %s THEN facts::text END FROM runs_run WHERE id = %s"
_PARTS = """
SELECT key, value::text FROM runs_run, jsonb_each(facts)
WHERE id = %s AND length(value::text) <= %s ORDER BY length(value::text), key LIMIT %s
"""


def facts_of(run: Run) -> dict[str, Any]:
    """The run's facts. Of facts that are too large, the small parts, and under "cut" what is missing."""
    if "facts" in run.__dict__:
        return dict(run.facts)
    with connection.cursor() as database:
        database.execute(_SIZED, [MAX_DATA * 2, run.pk])  # as text Postgres adds blanks
        size, text = database.fetchone() or (0, None)
        if text is not None:
            found = orjson.loads(text)
            return found if isinstance(found, dict) else {}
        if not size:
            return {}
        database.execute(_PARTS, [run.pk, LARGEST_PART, MOST_PARTS])
        parts = {key: orjson.loads(value) for key, value in database.fetchall()}
    return parts | {"cut": f"{size} characters are stored; parts of more than {LARGEST_PART} are left out"}


def packages_of(run: Run) -> dict[str, Any]:
    """Package -> version that the driver ran with; empty where it said something else."""
    packages = facts_of(run).get("packages")
    return packages if isinstance(packages, dict) else {}


def facts_add(run: Run, attempt: int, said: Mapping[str, Any]) -> None:
    """Merge what a driver says into the run's facts. Where that is too much, the latest alone are kept, and the log says so.

    The caller saves the run.
    """
    merged = {**facts_of(run), **said}
    if len(orjson.dumps(merged)) > MAX_DATA:
        merged = dict(said)
        words = f"The facts of this run were more than {MAX_DATA} bytes; those that were said before are no longer kept."
        server_says(run, attempt, words)
    run.facts = merged

"""Facts reported by drivers: packages, base models. Their size is limited on writing, and again on reading, because earlier
versions stored them without a limit. `Run.objects` does not load them (webapp/runs/models.py).
"""

from collections.abc import Mapping
from typing import Any

import orjson
from django.db import connection

from webapp.runs.logs import server_says
from webapp.runs.models import Run
from workers.telemetry.limits import MAX_DATA

LARGEST = MAX_DATA * 2
"""Maximum number of characters of facts that are read whole: PostgreSQL's text format adds blanks."""
LARGEST_PART, MOST_PARTS = 16 << 10, 16
"""Maximum size and number of the parts shown of facts that are too large."""
_SIZED = "SELECT length(facts::text), CASE WHEN length(facts::text) <= %s THEN facts::text END FROM runs_run WHERE id = %s"
_PARTS = """
SELECT key, value::text FROM runs_run, jsonb_each(facts)
WHERE id = %s AND length(value::text) <= %s ORDER BY length(value::text), key LIMIT %s
"""


def facts_of(run: Run) -> dict[str, Any]:
    """Return the run's facts. For facts that are too large, the small parts, and under "cut" a description of the rest."""
    if "facts" in run.__dict__:
        return dict(run.facts) if isinstance(run.facts, dict) else {}
    with connection.cursor() as database:
        database.execute(_SIZED, [LARGEST, run.pk])
        size, text = database.fetchone() or (0, None)
        if text is not None:
            facts = orjson.loads(text)
            return facts if isinstance(facts, dict) else {}
        if not size:
            return {}
        database.execute(_PARTS, [run.pk, LARGEST_PART, MOST_PARTS])
        parts = {key: orjson.loads(value) for key, value in database.fetchall()}
    return parts | {"cut": f"{size} characters are stored; parts of more than {LARGEST_PART} are omitted"}


def packages_of(run: Run) -> dict[str, Any]:
    """Return package -> version of the driver; empty for invalid reports."""
    packages = facts_of(run).get("packages")
    return packages if isinstance(packages, dict) else {}


def facts_add(run: Run, attempt: int, reported: Mapping[str, Any]) -> None:
    """Merge a driver's report into the run's facts. If they become too large, only the latest are kept, with a line in the log.

    The caller saves the run.
    """
    merged = {**facts_of(run), **reported}
    if len(orjson.dumps(merged)) > MAX_DATA:
        merged = dict(reported)
        words = f"The facts of this run exceeded {MAX_DATA} bytes; earlier ones were deleted."
        server_says(run, attempt, words)
    run.facts = merged

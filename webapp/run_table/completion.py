"""Completion of filters: fields of the reader's runs, and values of these fields."""

import re
from collections.abc import Iterable, Iterator
from typing import Any

from django.contrib.auth.models import AnonymousUser

from webapp.accounts.models import User
from webapp.common.query_language import complete, fitting
from webapp.metrics.models import Series
from webapp.metrics.names import metric_word
from webapp.run_table.columns import FACTS, config_at
from webapp.run_table.filters import FIELDS
from webapp.runs.configs import flatten
from webapp.runs.models import RunState
from webapp.runs.selectors import runs_visible

RECENT = 200
"""Maximum number of runs whose configs and metrics are read."""


def filter_complete(user: User | AnonymousUser, text: str) -> dict[str, Any]:
    """Return {"start": start of the current word, "options": [{"text", "note"}]} for the text up to the caret."""
    return complete(text, lambda: _fields(user), lambda field: _values(user, field))


def column_complete(user: User | AnonymousUser, text: str) -> dict[str, Any]:
    """Return the same for column names: facts, metrics with their measures, config fields."""
    options = [
        *((name, "") for name in FACTS),
        *(item for item in _fields(user) if item[1] in ("metric", "config")),
    ]
    measures = (
        (f"{key}:{name}", "metric")
        for key, note in options
        if note == "metric"
        for name in ("max", "min", "first")
    )
    return {
        "start": 0,
        "options": fitting([{"text": name, "note": note} for name, note in [*options, *measures]], text),
    }


def _fields(user: User | AnonymousUser) -> Iterator[tuple[str, str]]:
    yield from FIELDS.items()
    recent = list(
        runs_visible(user).order_by("-created_at").prefetch_related(None).values_list("pk", "config")[:RECENT]
    )
    keys = (
        Series.objects.filter(run__in=[pk for pk, _ in recent[:20]]).values_list("key", flat=True).distinct()
    )
    yield from ((metric_word(key), "metric") for key in sorted(keys))
    values = {path: value for _, config in recent for path, value in flatten(config).items()}
    paths = [path for path in sorted(values) if re.fullmatch(r"\w+(\.\w+)+", path)]
    yield from ((path, "config") for path in paths if not isinstance(values[path], list))


def _values(user: User | AnonymousUser, field: str) -> list[str]:
    runs = runs_visible(user).prefetch_related(None).order_by("-created_at")
    if field == "state":
        return list(RunState.values)
    if field == "tag":
        return _distinct(tag for tags in runs.values_list("tags", flat=True)[:RECENT] for tag in tags)
    columns = {
        "owner": "owner__username",
        "project": "project__slug",
        "preset": "preset",
        "name": "name",
        "source": "source",
    }
    if field in columns:
        return _distinct(runs.values_list(columns[field], flat=True)[:RECENT])
    if field == "archived":
        return ["true", "false"]
    if "." in field:
        values = (config_at(config, field) for config in runs.values_list("config", flat=True)[:RECENT])
        return _distinct(_spelled(value) for value in values if isinstance(value, str | int | float))
    return []


def _distinct(values: Iterable[Any]) -> list[str]:
    return sorted({str(value) for value in values if value not in ("", None)})


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)

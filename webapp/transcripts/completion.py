"""Completion of queries on transcripts: fields of a run's roles, and values of these fields."""

from collections.abc import Iterator
from typing import Any

from webapp.common.query_language import complete
from webapp.common.tones import role_tones
from webapp.runs.models import Run
from webapp.transcripts.forms import KINDS
from webapp.transcripts.models import Episode
from webapp.transcripts.notes import labels_of
from webapp.transcripts.query import ANY, FIELDS, ROLE_FIELDS, TURN_FIELDS

RECENT = 500
"""Number of newest episodes whose values are suggested."""
_FLAGS = ("success", "truncated", "probe", "error")
_COLUMNS = ("task", "title", "environment", "name")


def query_complete(run: Run, text: str, *, noted: bool = True) -> dict[str, Any]:
    """Return {"start": start of the current word, "options": [{"text", "note"}]} for the text up to the caret."""
    return complete(text, lambda: _fields(run), lambda field: _values(run, field, noted))


def roles_of(run: Run) -> list[str]:
    """Return the roles of the config and of the newest episode."""
    return list(dict.fromkeys([*role_tones(run.config), *newest_of(run).get("rewards", {})]))


def newest_of(run: Run) -> dict[str, Any]:
    """Return id, rewards and versions of the run's newest episode; read once for a Run object."""
    if "_newest_episode" not in run.__dict__:
        rows = Episode.objects.of_run(run).order_by("-pk").values("pk", "rewards", "versions")
        run.__dict__["_newest_episode"] = dict(rows.first() or {})
    newest: dict[str, Any] = run.__dict__["_newest_episode"]
    return newest


def _fields(run: Run) -> Iterator[tuple[str, str]]:
    yield from FIELDS.items()
    roles = roles_of(run)
    for role in (*roles, ANY):
        yield from ((f"{role}.{name}", note) for name, note in ROLE_FIELDS.items())
    for part, fields in TURN_FIELDS.items():
        yield from ((f"{part}.{name}", note) for name, note in fields.items())
        yield from ((f"{role}.{part}.{name}", note) for role in roles for name, note in fields.items())


def _values(run: Run, field: str, noted: bool) -> list[str]:
    if field == "kind":
        return [value for value, _ in KINDS]
    if field == "outcome":
        return ["solved", "unsolved", "error"]
    if field == "role":
        return roles_of(run)
    if field == "label":
        return labels_of(run) if noted else []
    if field in _FLAGS or field.endswith(".truncated"):
        return ["true", "false"]
    if field in _COLUMNS:
        newest = Episode.objects.of_run(run).order_by("-pk").values_list(field, flat=True)[:RECENT]
        return sorted({value for value in newest if value})
    return []

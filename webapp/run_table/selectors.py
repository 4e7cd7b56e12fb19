"""Queries of the runs table."""

from collections.abc import Mapping
from typing import Any

from django.db.models import Q, QuerySet

from webapp.accounts.permissions import Person
from webapp.run_table.filters import runs_filter
from webapp.run_table.sorting import runs_sort
from webapp.runs.models import Run
from webapp.runs.selectors import runs_visible


def runs_list(user: Person, filters: Mapping[str, Any] | None = None) -> QuerySet[Run]:
    """Return runs newest first, or by `sort`. Filters: q (words in name, id, preset or tags), state, tag, project (slug), filter
    (webapp.run_table.filters). Archived runs are hidden unless requested by `archived` or the filter.

    Raises FilterError.
    """
    filters = filters or {}
    runs = runs_sort(runs_visible(user), str(filters.get("sort", "")))
    if not filters.get("archived") and "archived" not in str(filters.get("filter", "")):
        runs = runs.filter(archived=False)
    if filters.get("state"):
        runs = runs.filter(state=filters["state"])
    if filters.get("tag"):
        runs = runs.filter(tags__contains=[filters["tag"]])
    if filters.get("project"):
        runs = runs.filter(project__slug=filters["project"])
    for word in str(filters.get("q", "")).split():
        runs = runs.filter(
            Q(name__icontains=word)
            | Q(pk__icontains=word)
            | Q(preset__icontains=word)
            | Q(tags__contains=[word])
        )
    return runs_filter(runs, str(filters.get("filter", "")))

"""Compiled queries return the rows of their queryset."""

import pytest
from django.db.models import F

from webapp.common.compiled import CompiledQuery
from webapp.runs.models import Run


def test_rows_are_those_of_the_queryset(run: Run) -> None:
    """With JSON, annotations and deferred fields, also for other parameters than those of the first call."""
    Run.objects.filter(pk=run.pk).update(tags=["a", "b"])
    query = CompiledQuery(
        lambda pk: Run.objects.annotate(slug=F("project__slug")).defer("config").filter(pk=pk)
    )
    assert query.first("nothing") is None
    (row,) = query(run.pk)
    assert (row, row.tags, row.created_at, row.slug) == (run, ["a", "b"], run.created_at, run.project.slug)
    assert "config" in row.get_deferred_fields() and row.config == run.config


def test_another_order_of_parameters_is_refused(db: None) -> None:
    query = CompiledQuery(lambda name, pk: Run.objects.filter(pk=pk).filter(name=name))
    with pytest.raises(ValueError, match="in their order"):
        query("a", "b")

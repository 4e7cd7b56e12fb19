"""Querysets that are compiled once."""

from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection, transaction
from django.db.models import F
from django.test.utils import CaptureQueriesContext

from webapp.accounts.models import Project, User
from webapp.common.compiled import CompiledQuery
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db
Make = Callable[..., Run]


@pytest.fixture
def make(project: Project, user: User) -> Make:
    """Stores a run."""
    return lambda **fields: Run.objects.create(
        **{"project": project, "owner": user, "name": "r", "config": {}, "iterations": 9} | fields
    )


def test_rows_are_those_of_the_queryset_for_other_parameters(make: Make) -> None:
    first, second = make(config={"a": [1]}, tags=["x"]), make(config={"a": [2]})
    query = CompiledQuery(lambda key: Run.objects.filter(pk=key))
    assert query(first.pk) == [first] and query(second.pk) == [second]
    assert query("unknown") == [] and query.first("unknown") is None
    again = query.first(first.pk)
    assert again is not None and (again.config, again.tags) == ({"a": [1]}, ["x"]), "JSON is read"
    assert again.project == first.project, "related objects are loaded when they are used"


def test_the_queryset_is_made_once(make: Make) -> None:
    made = []

    def of_key(key: str) -> Any:
        made.append(key)
        return Run.objects.filter(pk=key)

    query = CompiledQuery(of_key)
    keys = [make().pk for _ in range(3)]
    assert [query(key)[0].pk for key in keys] == keys
    assert made == keys[:1]


def test_several_parameters_have_the_order_of_the_sql(make: Make) -> None:
    runs = [make(iteration=iteration) for iteration in (1, 2, 3)]
    right = CompiledQuery(
        lambda project, least: (
            Run.objects.filter(project=project).filter(iteration__gte=least).order_by("-iteration")
        )
    )
    assert right(runs[0].project_id, 2) == [runs[2], runs[1]]
    sorted_names = CompiledQuery(
        lambda project, least: Run.objects.filter(project=project, iteration__gte=least)
    )
    with pytest.raises(ValueError, match="has the parameters .* one filter"):
        sorted_names(runs[0].project_id, runs[0].project_id + 1)


def test_equal_parameters_do_not_hide_a_wrong_order(make: Make) -> None:
    project = make().project_id
    swapped = CompiledQuery(
        lambda project, least: Run.objects.filter(iteration__gte=least).filter(project=project)
    )
    assert swapped(project, project) == []
    with pytest.raises(ValueError, match="has the parameters"):
        swapped(project, project + 1)


def test_deferred_fields_and_annotations_are_kept(make: Make) -> None:
    run = make(config={"a": 1}, state="running")
    query = CompiledQuery(
        lambda key: Run.objects.defer("config", "facts").annotate(slug=F("project__slug")).filter(pk=key)
    )
    found: Any = query(run.pk)[0]
    assert found.get_deferred_fields() == {"config", "facts"}
    assert found.slug == run.project.slug
    found.iteration = 7
    found.save()
    run.refresh_from_db()
    assert (run.iteration, run.config) == (7, {"a": 1}), "a save leaves deferred fields as they are"


def test_a_locking_query_locks_its_row(make: Make) -> None:
    run = make()
    query = CompiledQuery(lambda key: Run.objects.select_for_update(nowait=True).filter(pk=key))
    with transaction.atomic(), CaptureQueriesContext(connection) as queries:
        assert query(run.pk) == [run]
    assert queries.captured_queries[0]["sql"].endswith("FOR UPDATE NOWAIT")

"""Searches that the database cannot process, or not in time, are the caller's to correct, in the dialect of the caller."""

from typing import Any

import pytest
from django.db import DataError, OperationalError, connection
from django.test import Client

from tests.webapp.mlflow.conftest import asker
from webapp.accounts.models import Project, User
from webapp.accounts.tokens import token_create
from webapp.common.searches import TOO_LONG, SearchRefused, search_limited
from webapp.site.api_errors import handle


def run(statement: str) -> None:
    with connection.cursor() as database:
        database.execute(statement)


@pytest.mark.django_db
def test_a_search_ends_after_its_time() -> None:
    with pytest.raises(SearchRefused, match=TOO_LONG), search_limited(0.02):
        run("SELECT pg_sleep(60)")
    with search_limited(0.02):
        run("SELECT 1")
    run("SELECT pg_sleep(0.05)")


@pytest.mark.django_db
def test_a_value_that_the_database_refuses_is_named() -> None:
    with pytest.raises(SearchRefused, match="division by zero"), search_limited():
        run("SELECT 1/0")


def test_a_database_that_does_not_answer_is_another_matter() -> None:
    answer, missing = handle(DataError("out of range\nLINE 1"), {}), handle(OperationalError("gone"), {})
    assert answer and (answer.status_code, answer.data) == (400, {"detail": "out of range"})
    assert missing and missing.status_code == 503


@pytest.mark.django_db(transaction=True)
def test_pages_and_mlflow_answer_400(
    ada: Client, user: User, project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        run("SELECT 1/0")

    monkeypatch.setattr("webapp.run_table.views.runs_list", fail)
    page = ada.get("/runs/?filter=x")
    assert page.status_code == 400 and "division by zero" in page.content.decode()
    monkeypatch.setattr("webapp.mlflow.runs.experiments_named", fail)
    ask = asker(token_create(user, "mlflow", ["read"])[1])
    assert ask("POST", "runs/search", 400, experiment_ids=["1"]) == {
        "error_code": "INVALID_PARAMETER_VALUE", "message": "division by zero",
    }  # fmt: skip

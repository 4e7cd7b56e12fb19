"""The OpenAPI document tells what operations answer."""

from typing import Any

import pytest
from drf_spectacular.generators import SchemaGenerator

from tests.webapp.api.conftest import Call
from webapp.reports.services import report_create
from webapp.runs.models import Run


@pytest.fixture(scope="module")
def operations() -> dict[tuple[str, str], dict[str, Any]]:
    """(method, path) -> operation."""
    paths = SchemaGenerator().get_schema(request=None, public=True)["paths"]
    return {(method, path): told for path, each in paths.items() for method, told in each.items()}


Operations = dict[tuple[str, str], dict[str, Any]]


def test_every_operation_names_its_refusals(operations: Operations) -> None:
    assert len(operations) > 100
    for (method, path), told in operations.items():
        changes = {"409", "413", "415"} if method != "get" else set()
        assert {"400", "401", "403", "404", "503"} | changes <= set(told["responses"]), (method, path)


def test_every_operation_names_one_success(operations: Operations) -> None:
    for (method, path), told in operations.items():
        assert len([status for status in told["responses"] if status < "300"]) == 1, (method, path)


def test_refusals_are_of_one_shape(operations: Operations) -> None:
    for told in operations.values():
        schema = told["responses"]["404"]["content"]["application/json"]["schema"]
        assert schema == {"$ref": "#/components/schemas/Error"}


def test_a_delete_answers_the_documented_status(operations: Operations, call: Call, run: Run) -> None:
    from django.test import Client

    report = report_create(run.owner, run.project, "title", "text")
    client = Client()
    client.force_login(run.owner)
    answer = client.delete(f"/api/v1/reports/{report.pk}/")
    assert (answer.status_code, answer.json()["deleted"]) == (200, True)
    deletes = [told for (method, _), told in operations.items() if method == "delete"]
    assert deletes and all("200" in told["responses"] and "204" not in told["responses"] for told in deletes)

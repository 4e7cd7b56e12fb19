"""The schema of the REST API, and what its modules import."""

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


def test_every_operation_names_one_success_and_its_refusals(operations: Operations) -> None:
    assert len(operations) > 100
    for (method, path), told in operations.items():
        changes = {"409", "413", "415"} if method != "get" else set()
        assert {"400", "401", "403", "404", "503"} | changes <= set(told["responses"]), (method, path)
        assert len([status for status in told["responses"] if status < "300"]) == 1, (method, path)
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


OWN = {
    "team": {"roles": {"solver": {"policy": "p"}}},
    "policies": {"p": {}},
    "environment": {
        "type": "dataset", "path": "projects/lab/sums.jsonl", "reward": {"type": "custom", "path": "lab.rewards:score"}
    },
}  # fmt: skip


def launched(call: Call, config: dict[str, Any]) -> Any:
    return call("runs/", {"config": config})


def test_refused_until_the_package_is_allowed(call: Call, project: Any, settings: Any) -> None:
    answer = launched(call, OWN)
    assert answer.status_code == 400 and not Run.objects.exists()
    said = answer.json()["errors"]["environment.reward.path"]
    assert "'lab' may not be run from here" in str(said) and "TROUPE_IMPORT_PACKAGES" in str(said)
    settings.TROUPE_IMPORT_PACKAGES = ["lab"]
    answer = launched(call, OWN)
    assert answer.status_code == 201, answer.content
    assert Run.objects.get().config["environment"]["reward"]["path"] == "lab.rewards:score"


def test_files_outside_the_data_folder_are_refused(call: Call, project: Any) -> None:
    answer = launched(call, OWN | {"environment": {"type": "dataset", "path": "/etc/passwd"}})
    assert answer.status_code == 400 and "environment.path" in answer.json()["errors"]

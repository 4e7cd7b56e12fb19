"""Code by import path from the API: refused, unless the server's owner has allowed its package."""

from typing import Any

import pytest

from tests.webapp.api.conftest import Call
from webapp.runs.models import Run

pytestmark = pytest.mark.django_db
OWN = {
    "team": {"roles": {"solver": {"policy": "p"}}},
    "policies": {"p": {}},
    "environment": {
        "type": "dataset", "path": "sums.jsonl", "reward": {"type": "custom", "path": "lab.rewards:score"}
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

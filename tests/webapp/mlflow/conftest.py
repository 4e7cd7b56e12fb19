"""Requests as MLflow's clients send them, in the name of the owner of the project lab."""

import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from webapp.accounts.models import Membership, Project, User
from webapp.accounts.tokens import token_create

Ask = Callable[..., Any]


def asker(secret: str, prefix: str = "/mlflow") -> Ask:
    """A function that sends an operation and returns the JSON of its response, which has this status."""
    client = Client(headers={"Authorization": f"Bearer {secret}"} if secret else {})

    def ask(method: str, operation: str, status: int = 200, /, **arguments: Any) -> Any:
        url = f"{prefix}/api/2.0/mlflow/{operation}"
        if method == "GET":
            response = client.get(url, arguments)
        else:
            response = client.generic(method, url, json.dumps(arguments), content_type="application/json")
        assert response.status_code == status, response.content
        return response.json()

    return ask


@pytest.fixture
def secret(user: User, project: Project) -> str:
    """A token with the scope launch."""
    return token_create(user, "mlflow", ["launch"])[1]


@pytest.fixture
def ask(secret: str) -> Ask:
    return asker(secret)


@pytest.fixture
def experiment(ask: Ask) -> str:
    """The id of an experiment."""
    return str(ask("POST", "experiments/create", name="tuning")["experiment_id"])


@pytest.fixture
def run_id(ask: Ask, experiment: str) -> str:
    """The id of a run in the experiment."""
    made = ask(
        "POST", "runs/create", experiment_id=experiment, start_time=1_700_000_000_000, run_name="bold-ant"
    )
    return str(made["run"]["info"]["run_id"])


@pytest.fixture
def tracking(transactional_db: None, live_server: Any) -> dict[str, str]:
    """The environment of a program that logs into the project lab."""
    user = User.objects.create_user("ada")
    lab = Project.objects.create(slug="lab", name="Lab")
    Membership.objects.create(project=lab, user=user, level=Membership.Level.OWNER)
    secret = token_create(user, "mlflow", ["admin"])[1]
    path = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/root"), "OMP_NUM_THREADS": "1"}
    return path | {"MLFLOW_TRACKING_URI": f"{live_server.url}/mlflow", "MLFLOW_TRACKING_TOKEN": secret}

"""What most tests of the web side start from: a person, their project, a run of the demonstration preset."""

import django
import pytest
from django.conf import settings
from django.test import Client

django.setup()  # conftest files are imported before pytest-django does it

settings.PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.MD5PasswordHasher"
]  # the real one takes 0.3 s on purpose

from rest_framework.test import APIClient  # noqa: E402

from training_core.config.files import load_config  # noqa: E402
from webapp.accounts.models import Membership, Project, User  # noqa: E402
from webapp.runs.models import Run  # noqa: E402
from webapp.stack.postgres import PostgresServer  # noqa: E402


@pytest.fixture(autouse=True)
def _servers(servers: PostgresServer) -> None:
    """Redis is there even for tests that touch no database."""


@pytest.fixture
def user(db: None) -> User:
    """A person with the password "correct horse battery"."""
    return User.objects.create_user("ada", password="correct horse battery")


@pytest.fixture
def project(user: User) -> Project:
    """A project that `user` owns."""
    project = Project.objects.create(slug="lab", name="Lab")
    Membership.objects.create(project=project, user=user, level=Membership.Level.OWNER)
    return project


@pytest.fixture
def ada(client: Client, user: User, project: Project) -> Client:
    """The browser of the owner of `project`."""
    client.force_login(user)
    return client


@pytest.fixture
def api(user: User, project: Project) -> APIClient:
    """A client of the API in the name of the owner of `project`."""
    client = APIClient()
    client.force_authenticate(user)
    return client


@pytest.fixture
def stranger(db: None) -> User:
    """A person who is in no project."""
    return User.objects.create_user("eve", password="another long secret")


@pytest.fixture
def run(project: Project, user: User) -> Run:
    """A queued run of `plan_path_duo`, not submitted."""
    config = load_config("plan_path_duo")
    return Run.objects.create(
        project=project, owner=user, name=config.run.name, preset="plan_path_duo",
        config=config.model_dump(mode="json"), iterations=config.run.iterations,
    )  # fmt: skip

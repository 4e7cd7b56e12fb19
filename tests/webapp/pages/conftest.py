"""A run with a story, and clients that are logged in."""

import pytest
from django.test import Client

from tests.end_to_end.seed import Story, encoded
from webapp.accounts.models import Membership, User
from webapp.ingest.services import batch_store
from webapp.runs.models import Attempt, Run


@pytest.fixture
def viewer(run: Run, stranger: User) -> Client:
    """The browser of somebody who may read the project."""
    Membership.objects.create(project=run.project, user=stranger, level=Membership.Level.VIEWER)
    other = Client()
    other.force_login(stranger)
    return other


@pytest.fixture
def told(run: Run) -> Run:
    """The run after 22 iterations."""
    Attempt.objects.create(run=run, number=1, state="live", submission_id=f"{run.pk}-1")
    story = Story(run.pk)
    batch_store(run.pk, encoded(story.opening()), "")
    batch_store(run.pk, encoded(story.iterations(0, 22, whole=1)), "")
    run.refresh_from_db()
    return run

"""The runs page introduces Troupe until the user has runs other than the demonstration."""

import pytest
from django.test import Client

from webapp.accounts.models import User
from webapp.runs.models import Run
from webapp.runs.selectors import DEMONSTRATION

WORDS = "Troupe trains teams of agents by reinforcement learning"


@pytest.mark.parametrize(("tags", "introduced"), [([DEMONSTRATION], True), ([], False)])
def test_the_demonstration_alone_is_introduced(
    client: Client, user: User, run: Run, tags: list[str], introduced: bool
) -> None:
    Run.objects.filter(pk=run.pk).update(tags=tags)
    client.force_login(user)
    assert (WORDS in client.get("/runs/").content.decode()) is introduced
    assert WORDS not in client.get("/runs/?state=running").content.decode()


def test_a_variation_of_the_demonstration_ends_the_introduction(client: Client, user: User, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(tags=[DEMONSTRATION])
    Run.objects.create(project=run.project, owner=user, config=run.config, iterations=1, tags=[DEMONSTRATION])
    client.force_login(user)
    assert WORDS not in client.get("/runs/").content.decode()

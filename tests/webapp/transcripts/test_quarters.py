"""Episodes without success are filtered and coloured by quarters of their returns."""

import math

import pytest
from django.test import Client

from tests.webapp.elements import elements, texts_of
from training_core.config.files import load_config
from webapp.accounts.models import User
from webapp.common.templatetags.troupe import quarter_tone
from webapp.runs.models import Run
from webapp.transcripts.models import Episode
from webapp.transcripts.quarters import has_success, quarters_read
from webapp.transcripts.selectors import episodes_list
from webapp.transcripts.table import standard_columns


@pytest.fixture
def networks(run: Run) -> Run:
    """A run of small networks with the returns 1 to 8, one that is not finite, and an error."""
    run.config = load_config("spread_mappo").model_dump(mode="json")
    run.save()
    for place, value in enumerate([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, math.inf, -9.0]):
        Episode.objects.create(
            run=run, attempt=1, cursor=1, name=f"1-{place}-eval-0", iteration=place, kind="eval", title="start 0", outcome="25 steps",
            episode_return=value, failed=value < 0, turn_count=25, tokens=0, started=0.0, ended=1.0,
        )  # fmt: skip
    return run


def test_quarters_hold_equal_shares_of_finite_returns(networks: Run) -> None:
    bounds = quarters_read(networks)
    assert bounds == pytest.approx((2.75, 4.5, 6.25))
    found = {
        quarter: sorted(
            episodes_list(networks, {"quarter": quarter}).values_list("episode_return", flat=True)
        )
        for quarter in "1234"
    }
    assert found == {"1": [1.0, 2.0], "2": [3.0, 4.0], "3": [5.0, 6.0], "4": [7.0, 8.0]}
    tones = [quarter_tone(episode, bounds) for episode in networks.episodes.order_by("pk")]
    assert tones == ["lowest"] * 2 + ["soft"] * 2 + [""] * 2 + ["highest"] * 2 + ["soft", "bad"]


def test_equal_returns_have_no_quarters(networks: Run) -> None:
    networks.episodes.filter(iteration__lt=8).update(episode_return=3.0)
    assert quarters_read(networks) is None


def test_runs_with_success_have_outcomes_instead(run: Run, networks: Run) -> None:
    assert not has_success(networks)
    networks.episodes.filter(iteration=0).update(success=True)
    assert has_success(networks) and quarters_read(networks) is None
    assert not episodes_list(networks, {"quarter": "4"}).exists()


def test_pages_of_networks_have_their_own_words(networks: Run, user: User, client: Client) -> None:
    client.force_login(user)
    page = client.get(f"/runs/{networks.pk}/transcripts/?quarter=4")
    assert texts_of(page, "select[name=quarter] option[selected]") == ["highest quarter"]
    assert len(elements(page, "tbody td.highest[data-label=return]")) == 2
    assert elements(page, "select[name=outcome]") == [] == elements(page, "input[name=tokens_min]")
    assert "steps" in texts_of(page, "thead th")[4] and "Search actions" in texts_of(
        page, ".filters label span"
    )
    assert standard_columns(networks) == ["iteration", "kind", "outcome", "return", "agents.reward", "turns"]
    columns = texts_of(client.get(f"/runs/{networks.pk}/transcripts/table/"), ".column-choice label")
    assert not {"success", "tokens", "truncated", "agents.tokens"} & set(columns) and "return" in columns
    episode = networks.episodes.earliest("pk")
    tree = client.get(f"/runs/{networks.pk}/episodes/{episode.pk}/tree/")
    assert tree["Location"] == f"/runs/{networks.pk}/episodes/{episode.pk}/"

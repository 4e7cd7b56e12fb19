"""Filters, full-text search and quarters of returns, through selectors, pages and API."""

import math
from typing import Any

import pytest
from django.test import Client

from tests.webapp.elements import elements, texts_of
from tests.webapp.transcripts.test_episodes import candidate, played, turn
from training_core.config.files import load_config
from webapp.common.templatetags.troupe import quarter_tone
from webapp.runs.models import Run
from webapp.transcripts.episodes import episodes_list, has_success, quarters_read
from webapp.transcripts.models import Episode
from webapp.transcripts.services import episodes_store
from webapp.transcripts.table import standard_columns
from webapp.transcripts.words import MOST_CHARACTERS, searchable


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


def test_pages_of_networks_have_their_own_words(networks: Run, ada: Client) -> None:
    page = ada.get(f"/runs/{networks.pk}/transcripts/?quarter=4")
    assert texts_of(page, "select[name=quarter] option[selected]") == ["highest quarter"]
    assert len(elements(page, "tbody td.highest[data-label=return]")) == 2
    assert elements(page, "select[name=outcome]") == [] == elements(page, "input[name=tokens_min]")
    assert "steps" in texts_of(page, "thead th")[4]
    assert "Search actions" in texts_of(page, ".filters label span")
    assert standard_columns(networks) == ["iteration", "kind", "outcome", "return", "agents.reward", "turns"]
    columns = texts_of(ada.get(f"/runs/{networks.pk}/transcripts/table/"), ".column-choice label")
    assert not {"success", "tokens", "truncated", "agents.tokens"} & set(columns) and "return" in columns
    episode = networks.episodes.earliest("pk")
    tree = ada.get(f"/runs/{networks.pk}/episodes/{episode.pk}/tree/")
    assert tree["Location"] == f"/runs/{networks.pk}/episodes/{episode.pk}/"


def said(*texts: str, saw: str = "where to?") -> list[dict[str, Any]]:
    message = [{"role": "user", "content": saw}]
    return [turn(0, "planner") | {"candidates": [candidate(text) for text in texts], "messages": message}]


@pytest.fixture
def names(run: Run) -> Any:
    def read(asked: str = "", **filters: Any) -> str:
        return "".join(episodes_list(run, {"q": asked, **filters}).values_list("name", flat=True))

    return read


@pytest.mark.parametrize("rare", [0, 1, 2000])
def test_words_are_found_wherever_they_were_seen_or_said(
    run: Run, names: Any, monkeypatch: pytest.MonkeyPatch, rare: int
) -> None:
    monkeypatch.setattr("webapp.transcripts.words.RARE", rare)
    episodes_store(
        run,
        1,
        [
            played("a", turns=said("Up up and away")),
            played("b", turns=said("left", "the Road not taken")),
            played("c", turns=said("left", saw="<secret>blocked: up</secret>")),
            played("d", turns=[], outcome="failed", failed=True, error="ValueError: the floor gave way"),
        ],
    )
    assert names("up") == "ca", "a move, no stop word"
    assert names("UP and") == "a"
    assert names('"and up"') == "" and names('"and away"') == "a"
    assert names("road") == "b", "candidates that were not carried on"
    assert names("secret") == "c", "what stands in angle brackets"
    assert names("</secret>") == "c"
    assert names("aw") == "" and names("aw*") == "a"
    assert names("left -road") == "c" and names('-"not taken"') == "dca"
    assert names("floor gave") == "d"
    assert names("goal") == "dcba", "titles"
    assert names("'; drop & | ! :* <->") == "", "no syntax of the database"
    assert names("!!! ' -- &") == "dcba", "nothing that could be found"


def test_another_runs_words_stay_there(run: Run, names: Any) -> None:
    other = Run.objects.create(
        project=run.project, owner=run.owner, name="other", config=run.config, iterations=1
    )
    episodes_store(other, 1, [played("x", turns=said("needle"))])
    assert names("needle") == ""
    assert episodes_list(other, {"q": "needle"}).count() == 1


def test_a_huge_episode_is_searchable_from_its_start(run: Run, names: Any) -> None:
    endless = " ".join(f"w{number}" for number in range(60_000)) + " " + "x" * 5000
    episodes_store(run, 1, [played("a", turns=said(endless))])
    assert len(searchable([], {"turns": said(endless)})) == MOST_CHARACTERS
    assert (names("w1 w9000"), names("w59999")) == ("a", "")


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({"iteration_min": 3, "iteration_max": 4}, "cb"), ({"iteration": 9}, "d"),
        ({"role": "judge"}, "d"), ({"policy": "executor"}, "c"),
        ({"version": 7}, "ca"), ({"policy": "planner", "version": 7}, "a"), ({"policy": "planner", "version": 6}, ""),
        ({"reward_min": 1.0}, "b"), ({"reward_max": 0.0}, "a"), ({"reward_min": 0.0, "reward_max": 0.5}, "c"),
        ({"role": "planner", "reward_max": -1.0}, "c"), ({"role": "planner", "reward_min": -1e9}, "cba"),
        ({"tokens_min": 9}, "c"), ({"tokens_max": 3}, "b"), ({"turns_min": 2}, "cba"), ({"turns_max": 1}, "d"),
        ({"truncated": True}, "b"), ({"truncated": False}, "dca"), ({"failed": True}, "d"), ({"failed": False}, "cba"),
        ({"environment": "plan_path"}, "dcba"), ({"environment": "sudoku"}, ""), ({"task": "t-2"}, "b"), ({}, "dcba"),
        ({"outcome": "success"}, "ba"), ({"outcome": "unsolved"}, "c"), ({"outcome": "error"}, "d"), ({"outcome": "failed"}, "d"),
        ({"kind": "eval"}, "b"), ({"probe": True}, "b"), ({"probe": False}, "dca"),
    ],
)  # fmt: skip
def test_every_filter(run: Run, names: Any, filters: dict[str, Any], found: str) -> None:
    episodes_store(
        run,
        1,
        [
            played("a", iteration=1, episode_return=-1.0, versions={"planner": 7}),
            played("b", iteration=3, episode_return=1.0, truncated=True, tokens=3, task="t-2", kind="eval", probe=True),
            played("c", iteration=4, episode_return=0.5, tokens=9, rewards={"planner": -2}, versions={"executor": 7}, success=False),
            played("d", iteration=9, episode_return="NaN", failed=True, rewards={"judge": "NaN"}, versions={}, turns=[], success=False),
        ],
    )  # fmt: skip
    assert names(**filters) == found


def test_the_page_marks_what_was_found_and_links_to_its_turn(ada: Client, run: Run) -> None:
    turns = [*said("nothing"), *said("a <b>needle</b> in it")]
    episodes_store(run, 1, [played("1-3-train-0", turns=turns), played("1-3-train-1", turns=said("hay"))])
    html = ada.get(f"/runs/{run.pk}/transcripts/", {"q": "NEEDLE"}).content.decode()
    pk = Episode.objects.get(name="1-3-train-0").pk
    assert f'/episodes/{pk}/#turn-2"' in html
    assert "a &lt;b&gt;<mark>needle</mark>&lt;/b&gt; in it" in html
    assert "3·1" not in html


def test_rows_alone_beyond_a_cursor(ada: Client, run: Run) -> None:
    episodes_store(run, 1, [played(f"1-3-train-{number}") for number in range(4)])
    keys = list(Episode.objects.order_by("pk").values_list("pk", flat=True))
    answer = ada.get(
        f"/runs/{run.pk}/transcripts/", {"part": "rows", "before": keys[3], "after": keys[0]}
    ).content.decode()
    assert [f'data-id="{key}"' in answer for key in keys] == [False, True, True, False]
    assert "<html" not in answer

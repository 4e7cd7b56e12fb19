"""Groups side by side and the tree of turns, through selectors, page and API."""

import json
import math
from typing import Any

import pytest
from django.http import Http404
from django.test import Client

from tests.webapp.elements import elements, text_of
from tests.webapp.transcripts.test_episodes import candidate, learnt, played, turn
from webapp.runs.models import Run
from webapp.transcripts.candidates import group_read, is_level, lean, spread, tree_read
from webapp.transcripts.models import Episode
from webapp.transcripts.services import annotations_store, episodes_store


def group(role: str, executed: int, *rewards: Any) -> dict[str, Any]:
    each = [candidate(f"answer {place}", reward=reward) for place, reward in enumerate(rewards)]
    return turn(0, role) | {"candidates": each, "executed": executed}


@pytest.fixture
def episode(run: Run) -> Episode:
    turns = [group("planner", 2, 1.0, 2.0, 6.0), group("executor", 0, 0.5, 0.5), group("planner", 0)]
    episodes_store(run, 1, [played("1-3-train-0", turns=turns)])
    annotations_store(run, 2, [learnt("1-3-train-0", {"turn": 0, "advantages": [-0.7559, -0.378, 1.1339]})])
    return Episode.objects.get()


def test_the_tree_by_hand(episode: Episode) -> None:
    levels, count = tree_read(episode)
    assert count == 3
    assert [(each["number"], each["role"], each["executed"]) for each in levels] == [
        (1, "planner", 2), (2, "executor", 0), (3, "planner", None)
    ]  # fmt: skip
    assert [each["zero_variance"] for each in levels] == [False, True, False]
    assert [each["reward"] for each in levels[0]["candidates"]] == [1.0, 2.0, 6.0]
    assert [each["advantage"] for each in levels[0]["candidates"]] == [-0.7559, -0.378, 1.1339]
    assert [each["advantage"] for each in levels[1]["candidates"]] == [None, None]
    assert [each["number"] for each in tree_read(episode, 2, 1)[0]] == [2]
    assert tree_read(episode, 9) == ([], 3)


def test_a_group_by_hand(episode: Episode) -> None:
    found = group_read(episode, 1)
    assert found["mean"] == 3.0 and found["std"] == pytest.approx(math.sqrt(7.0)), "(4 + 1 + 9) / 2"
    assert [each["text"] for each in found["candidates"]] == ["answer 0", "answer 1", "answer 2"]
    assert found["candidates"][0]["logprob"] == "-Infinity" and found["candidates"][0]["versions"] == [3]
    advantages = [(reward - 3) / (math.sqrt(7) + 1e-6) for reward in (1, 2, 6)]
    assert [each["advantage"] for each in found["candidates"]] == pytest.approx(advantages, abs=1e-3)
    assert group_read(episode, 3)["candidates"] == [] and group_read(episode, 3)["mean"] is None
    for number in (0, 4):
        with pytest.raises(Http404):
            group_read(episode, number)


def test_the_page_contains_the_first_tokens_of_each_candidate(
    run: Run, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = candidate("answer", tokens=[f"t{place}" for place in range(50)], token_ids=list(range(50)))
    group_turn = turn(0, "planner") | {"candidates": [long, candidate("other")], "executed": 0}
    episodes_store(run, 1, [played("1-3-train-0", turns=[group_turn])])
    monkeypatch.setattr("webapp.transcripts.episode_views.FIRST_TOKENS", 60)
    page = ada.get(f"/runs/{run.pk}/episodes/{Episode.objects.get().pk}/tree/")
    first, other = [json.loads(box["data-first-tokens"]) for box in elements(page, "[data-card-tokens]")]
    assert first["count"] == 50 and first["tokens"] == [f"t{place}" for place in range(30)]
    assert other["candidate"] == 1 and other["tokens"] == candidate("other")["tokens"]


@pytest.mark.parametrize(
    ("rewards", "mean", "std", "level"),
    [
        ([], None, None, False), ([2.0], 2.0, None, False), ([0.1, 0.1], 0.1, 0.0, True),
        ([1.0, "NaN"], None, None, False), (["NaN", "NaN"], None, None, False), (["Infinity"] * 2, None, None, False),
        ([None, 1.0, 1.0], 1.0, 0.0, True), ([None, None], None, None, False),
    ],
)  # fmt: skip
def test_spread(rewards: list[Any], mean: float | None, std: float | None, level: bool) -> None:
    assert spread(rewards) == (mean, std)
    assert is_level([{"reward": reward, "advantage": None} for reward in rewards]) == level


@pytest.mark.parametrize(
    ("advantage", "reward", "told"),
    [
        (0.0, 9.0, ("even", 0)), (0.1, 0.0, ("up", 1)), (-1.1, 9.0, ("down", 3)), (50.0, 0.0, ("up", 4)),
        (None, 2.0, ("up", 2)), (None, 0.5, ("down", 1)), ("NaN", 1.0, ("even", 0)), (None, None, ("even", 0)),
    ],
)  # fmt: skip
def test_colours_follow_advantage_or_the_reward(advantage: Any, reward: float, told: tuple[str, int]) -> None:
    assert lean({"advantage": advantage, "reward": reward}, mean=1.0) == told


def test_the_page_shows_the_turn_and_the_candidate_that_are_asked_for(ada: Client, episode: Episode) -> None:
    address = f"/runs/{episode.run_id}/episodes/{episode.pk}/tree/"
    page = ada.get(address)
    assert len(elements(page, ".level")) == 3 and len(elements(page, "[data-card]")) == 3
    assert [each["id"] for each in elements(page, ".node[aria-current]")] == ["node-1-3"], (
        "the one carried on"
    )
    assert "<script>x</script>" in text_of(page)
    chosen = ada.get(address, {"turn": 2, "candidate": 2})
    assert [each["id"] for each in elements(chosen, ".node[aria-current]")] == ["node-2-2"]
    assert "has no gradient" in text_of(chosen, ".group-panel .notice")
    assert "No answer at this turn" in ada.get(address, {"turn": 3, "candidate": 7}).content.decode()
    assert ada.get(address, {"turn": 4}).status_code == 404
    assert ada.get(address, {"turn": "x"}).status_code == 200
    assert ada.get(f"/runs/other/episodes/{episode.pk}/tree/").status_code == 404


def test_long_trees_come_in_parts(ada: Client, run: Run) -> None:
    episodes_store(run, 1, [played("a", turns=[group("planner", 0, 1.0, float(n)) for n in range(100)])])
    address = f"/runs/{run.pk}/episodes/{Episode.objects.get().pk}/tree/"
    html = ada.get(address, {"turn": 41}).content.decode()
    assert html.count('class="level"') == 40 and 'href="?turn=40"' in html and 'href="?turn=81"' in html
    assert 'id="node-41-1"' in html and 'id="node-80-1"' in html
    last = ada.get(address, {"turn": 100}).content.decode()
    assert last.count('class="level"') == 20 and "return" in last and "data-tree-after" not in last


def test_by_rest(ada: Client, episode: Episode) -> None:
    tree = ada.get(f"/api/v1/episodes/{episode.pk}/tree/", {"from": 2, "limit": 1}).json()
    assert tree["count"] == 3 and [each["number"] for each in tree["turns"]] == [2]
    found = ada.get(f"/api/v1/episodes/{episode.pk}/groups/1/").json()
    assert found["executed"] == 2 and found["candidates"][2]["text"] == "answer 2"


def test_rounding_makes_no_group_telling_and_what_the_batch_compares_is() -> None:
    rounded = [{"reward": 0.1 + 0.2, "advantage": 0.0}, {"reward": 0.3, "advantage": 0.0}]
    assert is_level(rounded)
    assert not is_level([each | {"advantage": 0.7} for each in rounded]), "REINFORCE++ learns from it"

"""Episodes: facts, bodies, what updates learnt of them, thinning."""

import math
from datetime import timedelta
from typing import Any

import pytest
from django.http import Http404
from django.test import Client
from django.utils import timezone

from tests.webapp.elements import text_of
from training_core.config.files import load_config
from webapp.accounts.models import User
from webapp.runs.models import Run
from webapp.transcripts.models import Episode, EpisodeAnnotation, EpisodeBody
from webapp.transcripts.selectors import episode_document, episode_get, episodes_list
from webapp.transcripts.services import annotations_store, bodies_thin, episodes_store
from webapp.transcripts.tasks import thin
from workers.telemetry.events import EpisodeAnnotationEvent, EpisodeEvent

HEAD = {"run": "r", "attempt": 1, "producer": "p", "seq": 1, "time": 1000.0}


def candidate(text: str, **fields: Any) -> dict[str, Any]:
    base = {
        "text": text, "token_ids": [5, 6], "tokens": ["go", " up"], "logprobs": [-0.1, "-Infinity"],
        "versions": [3, 3], "stop_reason": "stop", "local_reward": 0.5, "team_reward": 1.0, "reward": 1.5,
    }  # fmt: skip
    return base | fields


def turn(index: int, role: str) -> dict[str, Any]:
    return {
        "index": index, "role": role, "policy": role, "messages": [{"role": "user", "content": "<script>x</script>"}],
        "prompt_ids": [1], "candidates": [candidate("go up"), candidate("go down")], "executed": 0,
    }  # fmt: skip


def played(name: str, **fields: Any) -> EpisodeEvent:
    base = {
        "type": "episode", "episode": name, "iteration": 3, "kind": "train", "task": "t-1", "title": "to the goal",
        "outcome": "reached the goal", "success": True, "episode_return": 2.5, "rewards": {"planner": 1.5},
        "versions": {"planner": 3}, "tokens": 8, "started": 1.0, "ended": 2.0,
        "turns": [turn(0, "planner"), turn(0, "executor"), turn(1, "planner")],
    }  # fmt: skip
    return EpisodeEvent.model_validate(HEAD | base | fields)


def learnt(name: str, *turns: dict[str, Any], **fields: Any) -> EpisodeAnnotationEvent:
    return EpisodeAnnotationEvent.model_validate(
        HEAD | {"type": "episode_annotation", "episode": name, "turns": list(turns)} | fields
    )


def document(run: Run, name: str) -> dict[str, Any]:
    return episode_document(Episode.objects.get(run=run, name=name))


def test_a_failed_episode_without_steps_shows_its_error(client: Client, user: User, run: Run) -> None:
    """As small networks tell of training."""
    error = "environment 3, mine:Game, step: ValueError: the floor gave way"
    facts = {"success": None, "failed": True, "error": error, "outcome": "failed in step 7"}
    episodes_store(run, 1, [played("1-3-train-0", turns=[], **facts)])
    client.force_login(user)
    run.config = load_config("spread_toy").model_dump(mode="json")
    run.save()
    page = text_of(client.get(f"/runs/{run.pk}/episodes/{Episode.objects.get().pk}/"))
    assert error in page
    assert "Only metadata of this episode are stored: failed in step 7. Steps are stored" in page
    rows = client.get(f"/runs/{run.pk}/transcripts/?outcome=failed").content.decode()
    assert f"error: {error}" in rows


def test_facts_and_body_are_kept_as_told(run: Run) -> None:
    episodes_store(run, 9, [played("1-3-train-0")])
    row = Episode.objects.get(run=run)
    assert (row.name, row.iteration, row.kind, row.cursor, row.turn_count, row.tokens) == (
        "1-3-train-0", 3, "train", 9, 2, 8
    )  # fmt: skip
    body = document(run, "1-3-train-0")
    assert [turn["role"] for turn in body["turns"]] == ["planner", "executor", "planner"]
    assert body["turns"][0]["messages"][0]["content"] == "<script>x</script>"
    assert body["turns"][0]["candidates"][0]["logprobs"] == [-0.1, "-Infinity"]
    assert EpisodeBody.objects.get().size == len(bytes(EpisodeBody.objects.get().data))


def test_one_that_is_there_is_left_as_it_is(run: Run) -> None:
    episodes_store(run, 1, [played("a", title="first"), played("a", title="second")])
    episodes_store(run, 2, [played("a", title="third"), played("b")])
    assert list(Episode.objects.order_by("id").values_list("name", "title", "cursor")) == [
        ("a", "second", 1),
        ("b", "to the goal", 2),
    ]
    assert EpisodeBody.objects.count() == 2


@pytest.mark.parametrize(
    ("told", "kept"), [("NaN", math.nan), ("Infinity", math.inf), ("-Infinity", -math.inf), (-1.5, -1.5)]
)
def test_returns_that_are_no_numbers(run: Run, told: Any, kept: float) -> None:
    episodes_store(run, 1, [played("a", episode_return=told, rewards={"planner": told})])
    row = Episode.objects.get(run=run)
    assert row.episode_return == kept or (math.isnan(kept) and math.isnan(row.episode_return))
    assert row.rewards == {"planner": told}


@pytest.mark.parametrize("first", ["episode", "annotation"])
def test_what_was_learnt_is_merged_whichever_comes_first(run: Run, first: str) -> None:
    note = learnt(
        "a",
        {
            "turn": 1,
            "advantages": [0.7, "NaN"],
            "ratios": [[1.0, 1.1], [0.9, 1.0]],
            "entropies": [[0.1, 0.2]],
        },
        stages={"consumed": 5.0},
    )
    if first == "annotation":
        annotations_store(run, 1, [note])
    episodes_store(run, 2, [played("a")])
    if first == "episode":
        annotations_store(run, 3, [note])
    body = document(run, "a")
    one, other = body["turns"][1]["candidates"]
    assert (one["advantage"], other["advantage"]) == (0.7, "NaN")
    assert (one["ratios"], one["entropies"]) == ([1.0, 1.1], [0.1, 0.2])
    assert "entropies" not in other
    assert body["turns"][0]["candidates"][0]["advantage"] is None
    assert body["stages"] == {"consumed": 5.0}


def test_damaged_notes_change_nothing_else(run: Run) -> None:
    episodes_store(run, 1, [played("a")])
    before = document(run, "a")
    notes = [
        learnt("a", {"turn": 99, "advantages": [1.0]}),
        learnt("a", {"turn": -1, "advantages": [1.0]}),
        learnt("a", {"turn": 0, "advantages": []}),
        learnt("a"),
        learnt("no such episode", {"turn": 0, "advantages": [1.0]}),
        learnt("a", {"turn": 0, "advantages": [1.0, 2.0]}, attempt=2),
    ]
    annotations_store(run, 2, notes)
    assert document(run, "a") == before | {"stages": {}}
    annotations_store(run, 3, [learnt("a", {"turn": 0, "advantages": [1.0, 2.0, 3.0, 4.0]})])
    assert [item["advantage"] for item in document(run, "a")["turns"][0]["candidates"]] == [1.0, 2.0]


def test_filters(run: Run) -> None:
    episodes_store(
        run,
        1,
        [
            played("a", success=True),
            played("b", success=False, kind="eval", probe=True, task="t-2"),
            played("c", success=False, failed=True, outcome="failed: the floor gave way", iteration=4),
        ],
    )
    episodes_store(
        run, 2, [played("d", success=None)]
    )  # its environment knows no success: neither solved nor not

    def names(**filters: Any) -> str:
        return "".join(episodes_list(run, filters).values_list("name", flat=True))

    assert names() == "dcba"
    assert (names(outcome="success"), names(outcome="unsolved"), names(outcome="failed")) == ("a", "b", "c")
    assert (names(kind="eval"), names(task="t-2"), names(probe=True), names(probe=False)) == (
        "b",
        "b",
        "b",
        "dca",
    )
    assert (names(iteration=4), names(q="FLOOR gave"), names(q="floor reached")) == ("c", "c", "")


def test_others_episodes_are_not_there(run: Run, user: User, stranger: User) -> None:
    episodes_store(run, 1, [played("a")])
    pk = Episode.objects.get().pk
    assert episode_get(user, pk).name == "a"
    with pytest.raises(Http404):
        episode_get(stranger, pk)


def test_thinning_drops_the_oldest_training_bodies_and_their_notes_alone(run: Run) -> None:
    probe, evaluation = played("probe", probe=True), played("eval", kind="eval")
    episodes_store(run, 1, [probe, evaluation, *(played(f"train-{n}") for n in range(4))])
    annotations_store(
        run, 2, [learnt(f"train-{n}", {"turn": 0, "advantages": [1.0, -1.0]}) for n in range(4)]
    )
    sizes = sum(EpisodeBody.objects.values_list("size", flat=True))
    notes = sum(len(bytes(data)) for data in EpisodeAnnotation.objects.values_list("data", flat=True))
    assert bodies_thin(run, budget=sizes + notes) == 0
    assert bodies_thin(run, budget=sizes + notes - 1) == 1
    assert document(run, "train-0") == {}
    assert document(run, "train-1")["turns"]
    assert set(EpisodeAnnotation.objects.values_list("episode_name", flat=True)) == {
        "train-1",
        "train-2",
        "train-3",
    }
    assert bodies_thin(run, budget=0) == 3
    assert sorted(EpisodeBody.objects.values_list("episode__name", flat=True)) == ["eval", "probe"]
    assert Episode.objects.filter(run=run).count() == 6, "facts stay"
    assert not EpisodeAnnotation.objects.exists()


@pytest.mark.parametrize(
    ("state", "ended", "thinned"), [("running", None, True), ("finished", 10, True), ("failed", 90, False)]
)
def test_the_task_looks_at_runs_that_live_or_did_lately(
    run: Run, monkeypatch: pytest.MonkeyPatch, state: str, ended: int | None, thinned: bool
) -> None:
    ended_at = ended and timezone.now() - timedelta(minutes=ended)
    Run.objects.filter(pk=run.pk).update(state=state, ended_at=ended_at)
    seen: list[str] = []
    monkeypatch.setattr("webapp.transcripts.tasks.bodies_thin", lambda run: seen.append(run.pk))
    thin()
    assert seen == ([run.pk] if thinned else [])


def test_runs_of_networks_have_episodes_and_no_transcripts(client: Client, user: User, run: Run) -> None:
    client.force_login(user)
    assert "No transcripts yet" in text_of(client.get(f"/runs/{run.pk}/transcripts/"))
    run.config = load_config("spread_toy").model_dump(mode="json")
    run.save()
    page = text_of(client.get(f"/runs/{run.pk}/transcripts/"))
    assert "No episodes yet" in page and "Episodes" in page and "Transcripts" not in page
    page = text_of(client.get(f"/runs/{run.pk}/"))
    assert "Latest episodes" in page and "transcripts" not in page.lower()

"""Jobs that replay a stored episode: what they are given, what is refused before it is paid, and what a transcript shows of them."""

from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from tests.webapp.elements import elements, text_of
from tests.webapp.jobs.test_jobs import kept
from tests.webapp.transcripts.test_episodes import played, turn
from training_core.errors import ConfigError
from webapp.accounts.models import Project, User
from webapp.jobs.models import Job
from webapp.jobs.replays import strips, tokens_expected
from webapp.jobs.services import job_folder, jobs_follow, jobs_submit
from webapp.jobs.starting import Subject, job_create
from webapp.runs.models import Run
from webapp.transcripts.models import Episode, EpisodeBody
from webapp.transcripts.services import episodes_store
from workers.launchers.registry import FakeLauncher

pytestmark = pytest.mark.django_db


def stored(run: Run, **fields: Any) -> Episode:
    turns = [turn(0, "planner"), turn(0, "executor")]
    episodes_store(run, 1, [played("1-12-eval-3", turns=turns, iteration=12, task_number=3, **fields)])
    return Episode.objects.get()


def test_the_stored_episode_goes_to_the_job_with_the_nearest_checkpoint(
    run: Run, launcher: FakeLauncher, ada: Client
) -> None:
    near = [kept(run, iteration) for iteration in (5, 10, 20)][1]
    episode = stored(run)
    ada.post("/jobs/start/worth/", {"run": run.pk, "episode": episode.pk, "alternatives": "3"})
    job = Job.objects.get()
    assert (job.checkpoint, job.parameters["alternatives"]) == (near, 3) and jobs_submit() == 1
    request = job_folder(job).read("request") or {}
    (document,) = request["parameters"]["recorded"]
    assert document["task_number"] == 3 and document["kind"] == episode.kind
    assert [item["role"] for item in document["turns"]] == ["planner", "executor"]
    ada.post("/jobs/start/what_if/", {"run": run.pk, "episode": episode.pk, "turn": "2", "text": "7"})
    assert Job.objects.get(kind="what_if").parameters == {
        "episode": episode.pk,
        "turn": 2,
        "text": "7",
        "episodes": 4,
    }


def test_what_cannot_be_replayed_is_refused_before_it_is_paid(
    user: User, project: Project, run: Run, launcher: FakeLauncher
) -> None:
    def refusal(kind: str = "worth", overrides: Any = None, **parameters: Any) -> str:
        with pytest.raises(ConfigError) as refused:
            job_create(user, project, kind, Subject(run.config, run, overrides=overrides), parameters)
        return str(refused.value)

    episode = stored(run)
    assert "cannot be replayed, because programs outside" in refusal(
        overrides={"workflow": {"type": "rollout_buffer"}}
    )
    assert "no episode 999" in refusal(episode=999)
    assert "give 1 to 2" in refusal("what_if", episode=episode.pk, turn=3, text="x")
    EpisodeBody.objects.all().delete()
    assert "only metadata" in refusal(episode=episode.pk)
    assert not Job.objects.exists()


def test_expected_tokens_by_hand() -> None:
    """Answers of 2, 3 and 5 tokens, K = 4, M = 2: 4 · 10 for alternatives; 5 · 2 · (3 + 5) after the first, 5 · 2 · 5 after the second."""
    turns = [{"executed": 0, "candidates": [{"token_ids": [0] * length}]} for length in (2, 3, 5)]
    assert tokens_expected(turns, {"alternatives": 4, "continuations": 2}) == 40 + 80 + 50


def test_strips_of_an_episode_have_one_scale() -> None:
    """The widest reaches from the middle to the end: -0.5 - 0.3 is at 0, 0 at 50, 0.4 at 75."""
    drawn = strips({1: {"worth": -0.5, "half_width": 0.3}, 2: {"worth": 0.4, "half_width": 0.0}})
    assert [drawn[1]["low"], drawn[2]["at"]] == pytest.approx([0.0, 75.0])


def test_a_transcript_shows_the_worth_of_its_messages(run: Run, launcher: FakeLauncher, ada: Client) -> None:
    episode = stored(run)
    address = reverse("transcripts:detail", args=[run.pk, episode.pk])
    assert elements(ada.get(address), "[action=/jobs/start/worth/]") and not elements(
        ada.get(address), ".worth"
    )
    ada.post("/jobs/start/worth/", {"run": run.pk, "episode": episode.pk, "checkpoint": "base"})
    jobs_submit()
    job = Job.objects.get()
    other = {"text": "left", "count": 3, "value": 0.25, "continuation": 1}
    worth = {
        "role": "executor", "worth": -0.5, "half_width": 0.25, "differs": True, "value": 0.1, "equal": 1,
        "continuation": None, "alternatives": [other],
    }  # fmt: skip
    message = {"episode": 0, "turn": 2, "text": "north"} | worth
    result = {
        "episodes": 1, "messages": 1, "tokens": 93, "left_out": 0, "failed_messages": 0, "refused": [],
        "worth": {"executor": {"worth": -0.5, "half_width": None, "influence": None, "influence_high": None}},
        "lowest": [message], "by_message": [message],
    }  # fmt: skip
    body = {
        "turns": [turn(0, "planner"), turn(0, "executor") | {"worth": worth}],
        "title": "t",
        "outcome": "o",
    }
    job_folder(job).keep([body | {"episode_return": 1.0, "failed": False, "success": True, "error": ""}])
    job_folder(job).write("result", result)
    jobs_follow()
    shown = text_of(ada.get(address), ".turn .worth")
    assert "−0.50" in shown and "worse than its alternatives" in shown and "left" in shown
    assert elements(ada.get(address), f"a[href=/jobs/{job.pk}/?episode=1]")
    assert "−0.50" in text_of(ada.get(f"/jobs/{job.pk}/"), "[aria-labelledby=earned-title]")

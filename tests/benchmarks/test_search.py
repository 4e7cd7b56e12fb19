"""Full-text search over 100,000 episodes: server time of the stream's page and of the API, printed and never judged by a clock.

    python -m pytest -s -m slow tests/benchmarks/test_search.py

Rare and common words, phrases, beginnings, filters beside them; median and longest of ten requests to the real views, on a real
PostgreSQL, one process. A quarter as many episodes of another run with the same words stand in the same tables.
"""

import random
from typing import Any

import pytest
from django.db import connection

from tests.benchmarks.test_dashboard import client, figures  # noqa: F401
from tests.end_to_end.seed import Story, encoded
from training_core.config.files import load_config
from webapp.accounts.models import Project, User
from webapp.ingest.services import batch_store
from webapp.runs.models import Attempt, Run
from webapp.transcripts.models import Episode
from webapp.transcripts.words import run_word

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
EPISODES, TOLD = 100_000, 1_000
WORDS = [
    f"{one}{two}{three}"
    for one in ("al", "be", "co", "du")
    for two in ("ra", "mi", "so", "ne", "lu")
    for three in range(250)
]
COPY = """
INSERT INTO transcripts_episode ({names})
SELECT {values} FROM transcripts_episode e, generate_series(1, %s) AS copy WHERE e.id = ANY(%s) ORDER BY copy, e.id
"""
BODIES = """
INSERT INTO transcripts_episodebody (episode_id, data, size, frames)
SELECT made.id, body.data, body.size, body.frames FROM transcripts_episode made
JOIN transcripts_episode told ON told.name = split_part(made.name, '+', 1) AND told.id = ANY(%s)
JOIN transcripts_episodebody body ON body.episode_id = told.id
WHERE made.name LIKE '%%+%%' AND made.run_id = told.run_id
"""


def told(run: Run, count: int) -> None:
    """So many episodes through ingest, with forty words of a vocabulary of 5,000 beside each answer; the commonest in most of them."""
    draw, story = random.Random(run.name), Story(run.pk)
    Attempt.objects.create(run=run, number=1, state="live", submission_id=f"{run.pk}-1")
    batch_store(run.pk, encoded(story.opening()), "")
    for first in range(0, count, 50):
        events = []
        for index in range(first, first + 50):
            episode = story.episode(index // 10, index, "train", draw.random() < 0.4, f"train/{index}")
            for turn in episode["turns"]:
                said = " ".join(WORDS[int(len(WORDS) * draw.random() ** 3)] for _ in range(40))
                turn["messages"] = [{"role": "user", "content": said}]
            events.append(episode)
        batch_store(run.pk, encoded(iter(events)), "")


def copied(run: Run, times: int) -> None:
    """The run's episodes as often again under other names; words, facts and bodies as they are."""
    keys = list(run.episodes.values_list("pk", flat=True))
    names = [field.column for field in Episode._meta.concrete_fields if field.column != "id"]
    given = {"name": "e.name || '+' || copy", "iteration": "e.iteration + copy * 100"}
    values = ", ".join(given.get(name, f"e.{name}") for name in names)
    with connection.cursor() as cursor:
        cursor.execute(COPY.format(names=", ".join(names), values=values), [times, keys])
        cursor.execute(BODIES, [keys])


def ran(name: str) -> Run:
    tree = load_config("plan_path_duo").model_dump(mode="json")
    return Run.objects.create(
        project=Project.objects.get(), owner=User.objects.get(), name=name, config=tree, iterations=10_000
    )


def test_search(client: Any) -> None:  # noqa: F811
    run, other = ran("searched"), ran("other")
    told(run, TOLD)
    copied(run, EPISODES // TOLD - 1)
    told(other, TOLD)
    copied(other, EPISODES // TOLD // 4 - 1)
    rare = run.episodes.order_by("pk")[EPISODES // 3]
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE transcripts_episode SET words = to_tsvector('simple', %s) WHERE id = %s",
            [f"{run_word(run.pk)} needle", rare.pk],
        )
        cursor.execute("VACUUM ANALYZE" if not connection.in_atomic_block else "ANALYZE")
    assert run.episodes.count() == EPISODES
    common, middling, seldom = "right", WORDS[40], WORDS[-1]
    queries: list[tuple[str, dict[str, Any]]] = [
        ("no words", {}),
        ("one episode has it", {"q": "needle"}),
        ("a rare word", {"q": seldom}),
        ("a middling word", {"q": middling}),
        ("a word in nearly all", {"q": common}),
        ("a phrase", {"q": '"right right"'}),
        ("a phrase that nobody said", {"q": f'"{seldom} {middling} {seldom}"'}),
        ("a word that nobody said", {"q": "nobodysaidthis"}),
        ("a beginning", {"q": "alra1*"}),
        ("all but a word", {"q": f"right -{WORDS[0]}"}),
        ("two common words", {"q": "right left"}),
        ("common, by role and reward", {"q": common, "role": "executor", "reward_min": "8"}),
        ("common, reward that nobody has", {"q": common, "reward_min": "1000"}),
        ("common, early iterations", {"q": common, "iteration_max": "3"}),
        ("common, failed", {"q": common, "outcome": "failed"}),
        ("common, version", {"q": common, "policy": "planner", "version": "3"}),
        ("middling, unsolved, a role", {"q": middling, "outcome": "unsolved", "role": "planner"}),
        ("rare, evaluations", {"q": seldom, "kind": "eval"}),
        ("no words, reward that nobody has", {"reward_min": "1000"}),
        ("no words, truncated", {"truncated": "true"}),
    ]  # fmt: skip
    for what, query in queries:
        figures(client, f"{what:34} page", f"/runs/{run.pk}/transcripts/", query)
        figures(client, f"{what:34} API ", f"/api/v1/runs/{run.pk}/episodes/", query)

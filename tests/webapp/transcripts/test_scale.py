"""Time of the list of episodes does not grow with the database: plans, bounds, counts."""

from typing import Any

import orjson
import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from tests.webapp.elements import texts_of
from webapp.accounts.models import Project, User
from webapp.live.deltas import delta_read
from webapp.runs.logs import LineFilter
from webapp.runs.models import LogLine, Run
from webapp.transcripts import api, episodes, words
from webapp.transcripts.episodes import Slice, stream_read
from webapp.transcripts.models import Episode
from webapp.transcripts.words import run_word, words_hits

OWN, OTHERS = 3000, 12_000
EPISODES = """
INSERT INTO transcripts_episode (run_id, attempt, cursor, name, iteration, kind, probe, task, title, outcome, success, failed, error,
  truncated, episode_return, rewards, versions, turn_count, tokens, started, ended, environment, roles, groups, words)
SELECT %(run)s, 1, n, '1-' || n || '-train-0', n, 'train', false, 't', 'title', 'won', true, false, '', false, n, '{}', '{}', 1, 1, 0, 1,
  '', '{}', '[]', to_tsvector('simple', %(word)s || ' left right' || CASE WHEN n = 7 THEN ' needle' ELSE '' END)
FROM generate_series(1, %(count)s) n
"""


def filled(run: Run, count: int) -> None:
    """Store episodes in the order of their numbers."""
    with connection.cursor() as cursor:
        cursor.execute(EPISODES, {"run": run.pk, "word": run_word(run.pk), "count": count})


@pytest.fixture
def old_run(run: Run, project: Project, user: User, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A fifth of all episodes, all of them older than those of another run; more than are found by the index of words alone."""
    monkeypatch.setattr(words, "RARE", 1000)
    filled(run, OWN)
    other = Run.objects.create(project=project, owner=user, name="later", config=run.config, iterations=1)
    filled(other, OTHERS)
    run.episode_counts = {"train": OWN}
    run.save()
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT gin_clean_pending_list('episode_words')"
        )  # which also has rows of other tests, and costs a scan
        cursor.execute("ANALYZE transcripts_episode")
    return run


def plan_of(rows: Any) -> str:
    """The plan with the number of rows that each node read."""
    return str(rows.explain(analyze=True))


@pytest.mark.parametrize("order", ["-pk", "pk", "-id", "id"])
def test_episodes_of_an_old_run_are_read_by_its_index(old_run: Run, order: str) -> None:
    rows = Episode.objects.of_run(old_run).order_by(order)
    assert list(rows.values_list("iteration", flat=True)[:2]) == ([OWN, OWN - 1] if "-" in order else [1, 2])
    plan = plan_of(rows[:60])
    assert "transcripts_run_id_9a8b88_idx" in plan and "Sort" not in plan and "Removed by Filter" not in plan


def test_frequent_words_are_read_from_the_newest_episode_on(old_run: Run) -> None:
    assert words_hits(old_run, "left") is None
    rows = stream_read(old_run, {"q": "left"}).episodes
    assert [row.iteration for row in rows[:2]] == [OWN, OWN - 1]
    plan = plan_of(
        Episode.objects.of_run(old_run).filter(words.words_fit(old_run, "left", None)).order_by("-pk")[:60]
    )
    assert "transcripts_run_id_9a8b88_idx" in plan and "Sort" not in plan and "rows=60" in plan


def test_rare_words_are_found_by_the_word_index(old_run: Run) -> None:
    hits = words_hits(old_run, "needle")
    assert hits == [old_run.episodes.get(iteration=7).pk]
    with connection.cursor() as cursor:
        cursor.execute(f"EXPLAIN {words._HITS}", [words.query(old_run.pk, "needle"), 10])
        assert "episode_words" in "\n".join(row[0] for row in cursor.fetchall())


def test_a_page_examines_a_limited_number_of_episodes(old_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "EXAMINED", 1000)
    seen, before, pages = [], None, 0
    while True:
        page = stream_read(old_run, {"q": '"right left"'}, before)  # in this order it is in none
        seen += page.episodes
        pages += 1
        if page.older is None:
            break
        assert page.examined
        before = page.older
    assert (seen, pages) == ([], 3)


def test_pages_of_a_filter_lose_no_episode(old_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "EXAMINED", 100)
    wanted = list(range(OWN, 2950, -1)) + list(range(1450, 1400, -1))
    old_run.episodes.exclude(iteration__in=wanted).update(truncated=True)
    seen, before = [], None
    while True:
        page = stream_read(old_run, {"truncated": False}, before)
        seen += [row.iteration for row in page.episodes]
        if page.older is None:
            break
        before = page.older
    assert seen == wanted


def test_newer_episodes_are_examined_up_to_same_limit(old_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "EXAMINED", 100)
    old_run.episodes.filter(iteration__in=[1, 2, OWN - 50]).update(truncated=True)
    everything = stream_read(old_run, {"truncated": True}, after=0)
    assert [row.iteration for row in everything.episodes] == [OWN - 50]
    assert (everything.older, everything.examined) == (None, False), "the rest is that of the list"
    newest = old_run.episodes.get(iteration=OWN).pk
    assert stream_read(old_run, {"truncated": True}, after=newest).episodes == []


def test_an_empty_list_states_the_newest_episode(old_run: Run, ada: Client) -> None:
    page = ada.get(f"/runs/{old_run.pk}/transcripts/", {"reward_min": "99999"})
    newest = old_run.episodes.get(iteration=OWN).pk
    assert f'data-newest="{newest}"' in page.content.decode()


def test_the_page_states_what_it_did_not_search(
    old_run: Run, ada: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(episodes, "EXAMINED", 1000)
    page = ada.get(f"/runs/{old_run.pk}/transcripts/", {"reward_min": "99999"})
    assert any("Older ones are not searched yet" in text for text in texts_of(page, "p"))
    rows = ada.get(f"/runs/{old_run.pk}/transcripts/", {"reward_min": "99999", "part": "rows"})
    assert rows["Troupe-Older"] == str(page.context["older"])
    last = ada.get(f"/runs/{old_run.pk}/transcripts/", {"q": "needle"})
    assert last.context["older"] is None and len(last.context["episodes"]) == 1


def test_matches_are_counted_up_to_a_limit(old_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "COUNTED", 100)
    page = stream_read(old_run, {"q": "left"})
    many = episodes.counts_read(old_run, {"q": "left"}, page)
    assert (many.kept, many.matching, many.more) == (OWN, 100, True)
    few = episodes.counts_read(old_run, {"q": "needle"}, stream_read(old_run, {"q": "needle"}))
    assert (few.matching, few.more) == (1, False)


def test_every_page_states_the_same_number_of_matches(old_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(episodes, "EXAMINED", 100)
    asked = {"truncated": False}
    stated, before = [], None
    for _ in range(4):
        page = stream_read(old_run, asked, before)
        stated.append(episodes.counts_read(old_run, asked, page))
        before = page.older
    assert [(row.matching, row.more) for row in stated] == [(100, True)] * 4
    everything = episodes.counts_read(old_run, asked | {"iteration_max": 50}, Slice([], None))
    assert (everything.matching, everything.more) == (0, True), "those of a run that are not examined"


@pytest.fixture
def old_log(run: Run, project: Project, user: User) -> Run:
    """A fifth of all log lines, all of them older than those of another run; the first third is of a worker."""
    other = Run.objects.create(project=project, owner=user, name="later", config={}, iterations=1)
    for owner, count in ((run, 3000), (other, 12_000)):
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO runs_logline (run_id, attempt, cursor, time, level, source, message) "
                "SELECT %s, 1, n, now(), 'info', CASE WHEN n <= 1000 THEN 'worker' ELSE 'driver' END, n "
                "FROM generate_series(1, %s) n",
                [owner.pk, count],
            )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE runs_logline")
    return run


@pytest.mark.parametrize("source, last", [("worker", "1000"), ("driver", "3000")])
@pytest.mark.parametrize("order", ["-pk", "pk"])
def test_lines_of_a_source_are_read_by_its_index(old_log: Run, source: str, last: str, order: str) -> None:
    rows = LineFilter(source=source).of(old_log).order_by(order)
    assert rows.order_by("-pk")[0].message == last
    plan = plan_of(rows[:60])
    assert "Index Cond" in plan and "Sort" not in plan and "Removed by Filter" not in plan


def test_the_log_of_an_old_run_is_read_by_its_index(old_log: Run) -> None:
    run = old_log
    rows = LogLine.objects.of_run(run).order_by("-pk")
    plan = plan_of(rows[:60])
    assert rows[0].message == "3000"
    assert "runs_loglin_run_id" in plan and "Sort" not in plan and "Removed by Filter" not in plan


def test_a_delta_reads_only_rows_between_its_cursors(old_run: Run) -> None:
    old_run.event_count = OWN
    old_run.save()
    with connection.cursor() as cursor:
        cursor.execute(
            "INSERT INTO transcripts_episodeannotation (run_id, episode_name, attempt, cursor, data, frames) "
            "SELECT run_id, name, attempt, cursor, '', '[]' FROM transcripts_episode"
        )
        cursor.execute("ANALYZE transcripts_episodeannotation")
    with CaptureQueriesContext(connection) as queries:
        delta = delta_read(old_run.pk, OWN - 20, OWN - 10)
    assert delta and [row["iteration"] for row in orjson.loads(delta.text)["episodes"]] == list(
        range(OWN - 19, OWN - 9)
    )
    of_cursors = [
        query["sql"] for query in queries if "transcripts_" in query["sql"] and '"cursor" >' in query["sql"]
    ]
    assert len(of_cursors) == 2
    for sql in of_cursors:
        with connection.cursor() as cursor:
            cursor.execute(f"EXPLAIN ANALYZE {sql}")
            plan = "\n".join(row[0] for row in cursor.fetchall())
        assert "_by_cursor" in plan and "Removed by Filter" not in plan


def test_conditions_are_checked_for_the_newest_episodes_alone(old_run: Run) -> None:
    newest = Episode.objects.of_run(old_run).newest(100)
    rows = newest.filter(truncated=True).order_by("-pk")
    old_run.episodes.filter(iteration__in=[5, OWN - 99, OWN - 100, OWN]).update(truncated=True)
    assert list(rows.values_list("iteration", flat=True)) == [OWN, OWN - 99]
    assert rows.count() == 2 and rows[:1].count() == 1
    last = old_run.episodes.get(iteration=OWN).pk
    assert Episode.objects.of_run(old_run).newest(100, before=last).filter(truncated=True).count() == 2
    plan = plan_of(newest.filter(task="in none").order_by("-pk")[:60])
    assert "transcripts_run_id_9a8b88_idx" in plan and "Removed by Filter: 100" in plan and "Sort" not in plan


def test_pages_of_the_api_lose_no_episode(old_run: Run, user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (episodes, api):
        monkeypatch.setattr(module, "EXAMINED", 100)
    wanted = list(range(OWN, 2950, -1)) + list(range(1450, 1400, -1))
    old_run.episodes.exclude(iteration__in=wanted).update(truncated=True)
    client, seen, pages = APIClient(), [], 0
    client.force_authenticate(user)
    address: str | None = f"/api/v1/runs/{old_run.pk}/episodes/?truncated=false&limit=20"
    while address:
        page = client.get(address).json()
        seen += [row["iteration"] for row in page["results"]]
        address, pages = page["next"], pages + 1
    assert seen == wanted and pages >= OWN // 100
    wrong = client.get(f"/api/v1/runs/{old_run.pk}/episodes/?truncated=false&cursor=cD1hYmM=")
    assert wrong.status_code == 400 and "cursor is invalid" in wrong.json()["detail"]

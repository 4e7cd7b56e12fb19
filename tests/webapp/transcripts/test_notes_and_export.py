"""Labels and notes of people, and episodes as JSON Lines."""

import json
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client

from tests.webapp.elements import text_of, texts_of
from tests.webapp.transcripts.test_episodes import learnt, played
from webapp.accounts.models import AuditEntry, Membership, Project, User
from webapp.runs.models import Run
from webapp.transcripts import export
from webapp.transcripts.episodes import episodes_list
from webapp.transcripts.models import Episode, EpisodeNote
from webapp.transcripts.services import annotations_store, episodes_store


@pytest.fixture
def episode(run: Run) -> Episode:
    episodes_store(run, 1, [played("1-3-train-0")])
    return Episode.objects.get()


@pytest.fixture
def viewer(project: Project) -> Client:
    person = User.objects.create_user("vera")
    Membership.objects.create(project=project, user=person, level=Membership.Level.VIEWER)
    client = Client()
    client.force_login(person)
    return client


def address(episode: Episode, below: str = "") -> str:
    return f"/runs/{episode.run_id}/episodes/{episode.pk}/notes/{below}"


def test_a_note_on_an_answer_is_shown_there_and_found(ada: Client, episode: Episode, run: Run) -> None:
    answer = ada.post(address(episode), {"turn": "2", "label": "good", "text": "<b>look</b>"})
    assert answer.headers["Location"].endswith(f"/episodes/{episode.pk}/#turn-2")
    assert "<b>look</b>" in text_of(ada.get(answer.headers["Location"]), "#turn-2 .notes")
    assert episodes_list(run, {"label": "good"}).count() == 1 and not episodes_list(run, {"label": "bad"})
    assert "good" in texts_of(ada.get(f"/runs/{run.pk}/transcripts/"), "[name=label] option")
    entry = AuditEntry.objects.get(act="episode.note")
    assert (entry.target, entry.details["label"], entry.details["turn"]) == (str(episode.pk), "good", 2)
    note = EpisodeNote.objects.get()
    ada.post(address(episode, f"{note.pk}/remove/"))
    assert not EpisodeNote.objects.exists()
    assert AuditEntry.objects.get(act="episode.note_remove").details["text"] == "<b>look</b>"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "a label, a note"), ({"label": "  "}, "a label, a note"), ({"turn": 4, "label": "x"}, "no turn 4"),
        ({"turn": 0, "label": "x"}, "turn"), ({"label": "x" * 41}, "label"), ({"text": "x" * 10_001}, "text"),
        ([1], "table of fields"), ({"text": "\0"}, "text"),
    ],
)  # fmt: skip
def test_what_is_no_note(ada: Client, episode: Episode, body: Any, said: str) -> None:
    answer = ada.post(
        f"/api/v1/episodes/{episode.pk}/notes/", json.dumps(body), content_type="application/json"
    )
    assert answer.status_code == 400 and said in answer.json()["detail"]
    assert not EpisodeNote.objects.exists()


def test_who_may_write(ada: Client, viewer: Client, episode: Episode) -> None:
    body = json.dumps({"label": "good"})
    told = f"/api/v1/episodes/{episode.pk}/notes/"
    assert viewer.post(told, body, content_type="application/json").status_code == 403
    made = ada.post(told, body, content_type="application/json")
    assert made.status_code == 201 and made.json()["author"] == "ada"
    assert viewer.get(told).json()["results"] == [made.json()]
    assert viewer.post(f"{told}{made.json()['id']}/remove/").status_code == 403
    assert ada.post(f"{told}{made.json()['id']}/remove/").status_code == 200


def test_export_has_all_that_fits_whole(ada: Client, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "AT_ONCE", 2)
    episodes_store(
        run, 1, [played(f"e{number}", iteration=number, episode_return="NaN") for number in range(5)]
    )
    annotations_store(run, 2, [learnt("e3", {"turn": 0, "advantages": [0.5, -0.5]})])
    Episode.objects.get(name="e4").body.delete()
    ada.post(address(Episode.objects.get(name="e2")), {"label": "good"})
    answer = ada.get(f"/api/v1/runs/{run.pk}/episodes/export/?iteration_min=1")
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.getvalue().splitlines()]
    assert [line["name"] for line in lines] == ["e4", "e3", "e2", "e1"]
    assert "turns" not in lines[0] and lines[0]["episode_return"] == "NaN"
    assert lines[1]["turns"][0]["candidates"][1]["advantage"] == -0.5
    assert [note["label"] for note in lines[2]["notes"]] == ["good"]
    assert ada.get(f"/runs/{run.pk}/transcripts/export/?iteration_min=9").getvalue() == b""


@pytest.mark.django_db(transaction=True)
def test_export_streams_without_holding_up_the_loop(
    run: Run, user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export, "AT_ONCE", 2)
    episodes_store(run, 1, [played(f"e{number}") for number in range(5)])
    client = AsyncClient()
    client.force_login(user)

    async def read() -> list[bytes]:
        answer: Any = await client.get(f"/runs/{run.pk}/transcripts/export/")
        assert answer.is_async
        return [chunk async for chunk in answer.streaming_content]

    chunks = async_to_sync(read)()
    assert [chunk.count(b"\n") for chunk in chunks] == [2, 2, 1]

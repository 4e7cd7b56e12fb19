"""The page that imports a data set."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from webapp.accounts.models import AuditEntry, Membership, User
from webapp.experiments import data

PAGE = "/experiments/data/"
ROWS = [{"question": f"{n} + <b>1</b>?", "answer": str(n + 1)} for n in range(60)]


@pytest.fixture
def folder(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder, with rows of sums in `sums.jsonl`."""
    settings.TROUPE_HOME = tmp_path
    monkeypatch.setenv("TROUPE_HOME", str(tmp_path))
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "sums.jsonl").write_text(lines(ROWS))
    return folder


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_file_is_uploaded_seen_and_imported(ada: Client, folder: Path) -> None:
    file = SimpleUploadedFile("my sums.jsonl", lines(ROWS).encode())
    answer = ada.post(PAGE, {"upload": file})
    assert answer["Location"] == f"{PAGE}?source=uploads%2Fmy-sums.jsonl"
    page = ada.get(answer["Location"]).content.decode()
    assert "0 + &lt;b&gt;1&lt;/b&gt;?" in page and 'value="my-sums"' in page
    assert "--question question" in page and "--answer answer" in page
    form = {"source": "uploads/my-sums.jsonl", "question": "question", "answer": "answer", "name": "sums"}
    answer = ada.post(PAGE, form)
    assert answer.status_code == 302, answer.content.decode()
    assert "environment.path=sums%2Ftrain.jsonl" in answer["Location"]
    texts = [(folder / f"sums/{name}.jsonl").read_text() for name in ("train", "eval")]
    written = [json.loads(line) for text in texts for line in text.splitlines()]
    assert {(row["prompt"], row["label"]) for row in written} == {tuple(row.values()) for row in ROWS}
    assert list(AuditEntry.objects.order_by("pk").values_list("act", flat=True)) == [
        "data.upload",
        "data.import",
    ]
    form_page = ada.get(answer["Location"]).content.decode()
    assert 'value="sums/train.jsonl"' in form_page and "to fix" not in form_page


def test_a_fragment_follows_the_columns(ada: Client, folder: Path) -> None:
    query = {"source": "sums.jsonl", "question": "answer", "name": "x"}
    page = ada.get(PAGE, query, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in page and ">60</pre>" not in page and ">1</pre>" in page


def test_an_option_without_effect_is_refused(ada: Client, folder: Path) -> None:
    query = {"source": "sums.jsonl", "question": "question", "solution": "answer"}
    assert "--solution has no effect without --tests" in ada.get(PAGE, query).content.decode()
    answer = ada.post(PAGE, {"source": "sums.jsonl", "question": "question", "name": "x", "drop_shared": "1"})
    page = answer.content.decode()
    assert answer.status_code == 400 and "--drop-shared has no effect" in page
    assert 'name="drop_shared" value="1" checked' in page, "the form stays as it was"


@pytest.mark.parametrize("source", ["../secret.jsonl", "/etc/passwd", "", "."])
def test_a_source_outside_of_the_data_folder_is_refused(ada: Client, folder: Path, source: str) -> None:
    (folder.parent / "secret.jsonl").write_text(lines(ROWS))
    answer = ada.post(PAGE, {"source": source, "question": "question", "name": "x"})
    assert answer.status_code == 400 and "is not below" in answer.content.decode()
    assert [path.name for path in folder.iterdir()] == ["sums.jsonl"]


def test_held_out_tasks_come_from_the_source_alone(ada: Client, folder: Path) -> None:
    (folder.parent / "secret.jsonl").write_text(lines(ROWS))
    form = {
        "source": "sums.jsonl",
        "question": "question",
        "name": "x",
        "eval": str(folder.parent / "secret.jsonl"),
    }
    answer = ada.post(PAGE, form)
    assert answer.status_code == 400 and "is not a split" in answer.content.decode()


def test_what_is_wrong_with_an_upload_is_said(
    ada: Client, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def upload(name: str, text: str) -> str:
        answer = ada.post(PAGE, {"upload": SimpleUploadedFile(name, text.encode())})
        assert answer.status_code == 400
        return answer.content.decode()

    assert "is none of .jsonl" in upload("a.csv", "x")
    ada.post(PAGE, {"upload": SimpleUploadedFile("a.jsonl", b"{}")})
    assert "another file a.jsonl" in upload("a.jsonl", "{} ")
    monkeypatch.setattr(data, "LARGEST", 3)
    assert "more than 3" in upload("b.jsonl", "{}  ")


def test_viewers_look_and_do_not_import(ada: Client, user: User, folder: Path) -> None:
    Membership.objects.update(level=Membership.Level.VIEWER)
    assert "You are a viewer" in ada.get(PAGE, {"source": "sums.jsonl"}).content.decode()
    assert ada.post(PAGE, {"source": "sums.jsonl", "question": "question", "name": "x"}).status_code == 403
    assert ada.post(PAGE, {"upload": SimpleUploadedFile("a.jsonl", b"{}")}).status_code == 403

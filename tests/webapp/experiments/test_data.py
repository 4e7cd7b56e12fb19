"""The page that imports a data set."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from training_core.config.files import load_config
from training_core.errors import ConfigError
from webapp.accounts.models import AuditEntry, Membership, Project, User
from webapp.experiments import data
from webapp.runs.configs import config_again, parse_permitted_for
from webapp.runs.models import Run, RunSource
from webapp.scheduling.services import run_create

PAGE = "/experiments/data/"
LAB = "projects/lab"
SUMS = f"{LAB}/sums.jsonl"
ROWS = [{"question": f"{n} + <b>1</b>?", "answer": str(n + 1)} for n in range(60)]


@pytest.fixture
def folder(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The data folder of the project, with rows of sums in `sums.jsonl`."""
    settings.TROUPE_HOME = tmp_path
    monkeypatch.setenv("TROUPE_HOME", str(tmp_path))
    folder = tmp_path / "data/projects/lab"
    folder.mkdir(parents=True)
    (folder / "sums.jsonl").write_text(lines(ROWS))
    return folder


def lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


def test_a_file_is_uploaded_seen_and_imported(ada: Client, folder: Path) -> None:
    file = SimpleUploadedFile("my sums.jsonl", lines(ROWS).encode())
    answer = ada.post(PAGE, {"upload": file})
    assert answer["Location"] == f"{PAGE}?source=projects%2Flab%2Fuploads%2Fmy-sums.jsonl&project=lab"
    page = ada.get(answer["Location"]).content.decode()
    assert "0 + &lt;b&gt;1&lt;/b&gt;?" in page and 'value="my-sums"' in page
    assert "--question question" in page and "--answer answer" in page
    form = {
        "source": f"{LAB}/uploads/my-sums.jsonl",
        "question": "question",
        "answer": "answer",
        "name": "sums",
    }
    answer = ada.post(PAGE, form)
    assert answer.status_code == 302, answer.content.decode()
    assert "environment.path=projects%2Flab%2Fsums%2Ftrain.jsonl" in answer["Location"]
    texts = [(folder / f"sums/{name}.jsonl").read_text() for name in ("train", "eval")]
    written = [json.loads(line) for text in texts for line in text.splitlines()]
    assert {(row["prompt"], row["label"]) for row in written} == {tuple(row.values()) for row in ROWS}
    assert list(AuditEntry.objects.order_by("pk").values_list("act", "project__slug")) == [
        ("data.upload", "lab"),
        ("data.import", "lab"),
    ]
    form_page = ada.get(answer["Location"]).content.decode()
    assert 'value="projects/lab/sums/train.jsonl"' in form_page and "to fix" not in form_page


def test_a_fragment_follows_the_columns(ada: Client, folder: Path) -> None:
    query = {"source": SUMS, "question": "answer", "name": "x"}
    page = ada.get(PAGE, query, headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in page and ">60</pre>" not in page and ">1</pre>" in page


def test_an_option_without_effect_is_refused(ada: Client, folder: Path) -> None:
    query = {"source": SUMS, "question": "question", "solution": "answer"}
    assert "--solution has no effect without --tests" in ada.get(PAGE, query).content.decode()
    answer = ada.post(PAGE, {"source": SUMS, "question": "question", "name": "x", "drop_shared": "1"})
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
        "source": SUMS,
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
    assert "You are a viewer" in ada.get(PAGE, {"source": SUMS}).content.decode()
    assert ada.post(PAGE, {"source": SUMS, "question": "question", "name": "x"}).status_code == 403
    assert ada.post(PAGE, {"upload": SimpleUploadedFile("a.jsonl", b"{}")}).status_code == 403


def joined(user: User, slug: str) -> Project:
    """A project that a person owns."""
    project, _ = Project.objects.get_or_create(slug=slug, defaults={"name": slug})
    Membership.objects.create(project=project, user=user, level=Membership.Level.OWNER)
    return project


def sources_shown(client: Client) -> set[str]:
    page = (
        client.get(PAGE).content.decode().partition('<datalist id="sources">')[2].partition("</datalist>")[0]
    )
    return {part.partition('"')[0] for part in page.split('value="')[1:]}


def test_nobody_sees_data_of_another_project(ada: Client, stranger: User, folder: Path) -> None:
    other, there = Client(), joined(stranger, "theirs")
    other.force_login(stranger)
    assert sources_shown(ada) == {SUMS} and sources_shown(other) == set()
    for source in (SUMS, LAB, "projects", "projects/none/sums.jsonl", "uploads/sums.jsonl"):
        form = {"source": source, "question": "question", "name": "x", "project": there.slug}
        assert [other.get(PAGE, form).status_code, other.post(PAGE, form).status_code] == [404, 404], source
    form = {"source": SUMS, "question": "question", "name": "x", "project": "theirs"}
    assert ada.post(PAGE, form).status_code == 404, "neither are they written to"
    assert (
        ada.post(PAGE, {"upload": SimpleUploadedFile("a.jsonl", b"{}"), "project": "theirs"}).status_code
        == 404
    )
    assert {path.name for path in folder.parent.iterdir()} == {"lab"}


def test_a_launch_names_data_of_visible_projects_only(
    ada: Client, user: User, stranger: User, project: Project, folder: Path
) -> None:
    there = joined(stranger, "theirs")

    def refused(person: User, target: Project, path: str) -> str:
        config = load_config("qwen3_math_single", {"environment.type": "dataset", "environment.path": path})
        try:
            run_create(person, target, config.model_dump(mode="json"))
        except ConfigError as error:
            return error.fields["environment.path"]
        return ""

    for path in (SUMS, "./projects//lab/sums.jsonl", "Projects/lab/sums.jsonl"):
        assert not refused(user, project, path)
        assert refused(stranger, there, path) == refused(stranger, there, "projects/none/x.jsonl") != ""
    assert refused(user, project, "sums/train.jsonl") == refused(stranger, there, SUMS)
    joined(user, "default")
    assert not refused(user, project, "sums/train.jsonl"), "data of the server's owner"


def test_a_run_with_a_file_outside_of_projects_is_repeated_by_those_who_see_it(
    user: User, stranger: User, project: Project, folder: Path
) -> None:
    there = joined(stranger, "theirs")
    fields = {"environment.type": "dataset", "environment.path": "uploads/old.jsonl"}
    tree = load_config("qwen3_math_single", fields).model_dump(mode="json")
    old = Run.objects.create(project=project, owner=user, name="old", config=tree, iterations=1)
    assert parse_permitted_for(user, old.config) and run_create(user, project, config_again(old))
    with pytest.raises(ConfigError, match=r"environment\.path"):
        run_create(stranger, there, tree)
    for field, path in (
        ("path", "uploads/other.jsonl"),
        ("eval_path", "uploads/old.jsonl"),
        ("path", "\0\ud800"),
    ):
        other = tree | {"environment": tree["environment"] | {field: path}}
        with pytest.raises(ConfigError, match=rf"environment\.{field}"):
            parse_permitted_for(user, other)
    Run.objects.update(source=RunSource.CLIENT)
    with pytest.raises(ConfigError, match=r"environment\.path"):
        parse_permitted_for(user, tree)


def test_data_outside_of_projects_belong_to_the_servers_owner(ada: Client, user: User, folder: Path) -> None:
    old = folder.parents[1] / "uploads"
    old.mkdir()
    (old / "old.jsonl").write_text(lines(ROWS))
    assert sources_shown(ada) == {SUMS} and ada.get(PAGE, {"source": "uploads/old.jsonl"}).status_code == 404
    joined(user, "default")
    assert sources_shown(ada) == {SUMS, "uploads/old.jsonl"}
    assert "0 + &lt;b&gt;1" in ada.get(PAGE, {"source": "uploads/old.jsonl"}).content.decode()


def test_a_file_that_a_parser_fails_on_is_refused_by_a_sentence(ada: Client, folder: Path) -> None:
    deep = b'{"question": ' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    (folder / "bad.jsonl").write_bytes(b'{"question": "1", "answer": "2"}\n' + deep + b"\n")
    reason, form = "nested more than 64", {"source": f"{LAB}/bad.jsonl"}
    page = ada.get(PAGE, form)
    assert page.status_code == 200 and reason in page.content.decode()
    answer = ada.post(PAGE, form | {"name": "x", "question": "question", "answer": "answer"})
    text = answer.content.decode()
    assert answer.status_code == 400 and "line 2: " in text and reason in text

"""Programs of others against the real server: their runs, curves, transcripts and ends; the first program of docs/use/client.md."""

import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

import troupe
from tests.architecture.source import ROOT
from tests.docs.fences import fences
from training_core.config.files import load_config
from training_core.errors import TroupeError
from troupe_client.cli.shipping import ship_run
from troupe_client.documents.launches import ClientRunBody
from troupe_client.reporting.client import run_begin
from troupe_client.server_api import find_server
from webapp.accounts.models import Membership, Project, User
from webapp.accounts.throttling import GUESSES
from webapp.accounts.tokens import token_create
from webapp.ingest.models import Producer
from webapp.jobs.models import Job
from webapp.runs.models import Attempt, Run
from webapp.runs.states import TransitionRefused
from webapp.scheduling.client_runs import client_run_begin, client_run_look_after
from webapp.scheduling.services import run_stop
from webapp.transcripts.models import Episode

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def connected(
    transactional_db: None, servers: Any, live_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> User:
    ada = User.objects.create_user("ada", password="correct horse battery")
    lab = Project.objects.create(slug="lab", name="Lab")
    Membership.objects.create(project=lab, user=ada, level=Membership.Level.OWNER)
    for name, value in {
        "TROUPE_URL": live_server.url,
        "TROUPE_TOKEN": token_create(ada, "script", ["read", "launch"])[1],
        "TROUPE_HOME": str(tmp_path),
    }.items():
        monkeypatch.setenv(name, value)
    return ada


def test_a_program_shows_up_in_the_same_pages(connected: User, client: Client) -> None:
    run = troupe.init(
        "lab", "my trl run", config={"lr": 1e-5}, team={"solver": "p"}, group="g", tags=["x"], steps=3,
        notes="why I did it",
    )  # fmt: skip
    for step in range(3):
        troupe.log({"train/return": step / 2, "lr": 1e-5})
    troupe.log_episode(
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "<b>yo</b>"}], reward=1.0
    )
    troupe.alert("look", "the loss jumped")
    assert troupe.finish()
    row = Run.objects.get(pk=run.id)
    assert (row.state, row.source, row.iteration, row.iterations) == ("finished", "client", 3, 3)
    assert row.tags == ["group:g", "x"] and row.config["client"] == {"lr": 1e-5}
    assert [(note.text, note.author, note.step) for note in row.run_notes.all()] == [
        ("why I did it", connected, None)
    ]
    client.force_login(connected)
    server = find_server()
    series = server.call(f"/api/v1/runs/{run.id}/series/", keys="train/return")
    assert "1.0" in str(series)
    episode = Episode.objects.get(run=row)
    assert episode.episode_return == 1.0
    for tab in ("", "curves/", "transcripts/", "checkpoints/", "logs/", "config/", "timeline/", "health/"):
        answer = client.get(f"/runs/{run.id}/{tab}")
        assert answer.status_code == 200, tab
        assert "<b>yo</b>" not in answer.content.decode()
    page = client.get(f"/runs/{run.id}/episodes/{episode.pk}/")
    assert page.status_code == 200 and "<b>yo</b>" not in page.content.decode()
    assert "the loss jumped" in client.get(f"/runs/{run.id}/logs/").content.decode()


@pytest.mark.extended
def test_stop_on_the_page_reaches_the_program(connected: User) -> None:
    with troupe.init("lab") as run:
        find_server().call(f"/api/v1/runs/{run.id}/stop/", {})
        reporter = run._open()
        assert reporter is not None
        for _ in range(400):
            reporter._wake.set()
            if run.should_stop():
                break
            reporter._closing.wait(0.05)
        assert run.should_stop()
    assert Run.objects.get(pk=run.id).state == "stopped"


def test_what_was_made_offline_is_delivered_later_once(
    connected: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TROUPE_DIR", str(tmp_path / "events"))  # sync looks where init stores
    with troupe.init("lab", "offline", mode="offline") as run:
        run.log({"loss": 0.5})
    assert not Run.objects.exists()
    for _ in range(2):
        ship_run(find_server(), run.id)
    assert Run.objects.get(pk=run.id).state == "finished"
    assert str(find_server().call(f"/api/v1/runs/{run.id}/series/", keys="loss")).count("0.5") >= 1


def test_a_server_that_is_away_at_first(connected: User, monkeypatch: pytest.MonkeyPatch) -> None:
    from troupe_client.server_api import Server, ServerAway

    real, calls = Server.call, []

    def away_at_first(self: Server, path: str, body: Any = None, **query: Any) -> Any:
        calls.append(path)
        if len(calls) < 3:
            raise ServerAway("not now")
        return real(self, path, body, **query)

    monkeypatch.setattr(Server, "call", away_at_first)
    run = troupe.init("lab")
    run.log({"loss": 1.0})
    assert run.finish() and len(calls) == 3
    assert Run.objects.get(pk=run.id).state == "finished"


def test_going_on_makes_a_second_attempt(connected: User) -> None:
    first = troupe.init("lab")
    first.log({"loss": 1.0}, step=5)
    first.finish()
    with pytest.raises(TroupeError, match="resume"):
        troupe.init("lab", id=first.id)
    with troupe.init("lab", id=first.id, resume="must") as second:
        second.log({"loss": 0.5}, step=6)
    row = Run.objects.get(pk=first.id)
    assert row.attempts.count() == 2 and row.state == "finished" and row.iteration == 6


def points(run: str, key: str) -> list[tuple[int, float]]:
    """Steps and values that charts show."""
    series = find_server().call(f"/api/v1/runs/{run}/series/", keys=key)["series"][key]
    return list(zip(series["steps"], series["values"], strict=True))


def test_a_resumed_run_goes_on_counting(connected: User) -> None:
    first = troupe.init("lab", steps=6)
    for value in range(3):
        troupe.log({"x": value})
    assert troupe.finish()
    second = troupe.init("lab", id=first.id, resume="must")
    assert second.step == 3
    for value in range(3, 6):
        troupe.log({"x": value})
    assert troupe.finish()
    assert points(first.id, "x") == [(step, float(step)) for step in range(6)]
    assert Run.objects.get(pk=first.id).iteration == 6


def delivered(run: troupe.ClientRun) -> None:
    """Wait until the server has all events of a run."""
    reporter = run._open()
    assert reporter is not None
    for _ in range(400):
        if reporter.has_stored(reporter.seq):
            return
        reporter._closing.wait(0.05)
    raise AssertionError("the events were not delivered")


@pytest.mark.parametrize("options", [{"role": "eval"}, {"resume": "must"}])
@pytest.mark.parametrize("failed", [False, True])
def test_a_second_program_disturbs_nobody(connected: User, options: dict[str, Any], failed: bool) -> None:
    with run_begin("lab", steps=9) as first:
        first.log({"loss": 1.0}, step=1)
        delivered(first)
        with suppress(ValueError), run_begin("lab", id=first.id, **options) as second:
            second.log({"eval/accuracy": 0.5}, step=5)
            if failed:
                raise ValueError("no model")
        delivered(first)
        assert not first.should_stop()
        row = Run.objects.get(pk=first.id)
        assert (row.state, row.attempts.count()) == ("running", 1) and row.iteration < 5
        assert row.log_lines.filter(level="error", message__contains="no model").count() == failed
        first.log({"loss": 0.5}, step=9)
    assert points(first.id, "loss") == [(1, 1.0), (9, 0.5)]
    assert points(first.id, "eval/accuracy") == [(5, 0.5)]
    row = Run.objects.get(pk=first.id)
    assert (row.state, row.iteration) == ("finished", 9)


def test_the_state_follows_the_main_program_whoever_came_first(connected: User) -> None:
    judge = run_begin("lab", role="eval", name="whole")
    judge.log({"eval/accuracy": 0.25})
    delivered(judge)
    with run_begin("lab", id=judge.id, resume="allow") as trainer:
        trainer.log({"loss": 1.0}, step=7)
        delivered(trainer)
        judge.finish("failed", "too slow")
        assert Run.objects.get(pk=judge.id).state == "running"
    row = Run.objects.get(pk=judge.id)
    assert (row.state, row.name, row.attempts.count()) == ("finished", "whole", 1)


def test_of_programs_with_roles_the_first_of_the_run_leads(connected: User) -> None:
    other = run_begin("lab")
    delivered(other)
    first = run_begin("lab", role="trainer")
    first.log({"loss": 1.0})
    delivered(first)
    with run_begin("lab", id=first.id, role="eval") as second:
        second.log({"eval/accuracy": 0.5})
    assert Run.objects.get(pk=first.id).state == "running"
    first.finish("failed", "no memory")
    other.finish()
    assert Run.objects.get(pk=first.id).state == "failed"


def test_a_program_with_a_role_reports_after_the_end(connected: User) -> None:
    with run_begin("lab") as trainer:
        trainer.log({"loss": 1.0})
    with run_begin("lab", id=trainer.id, role="eval") as judge:
        judge.log({"eval/accuracy": 0.5}, step=0)
    row = Run.objects.get(pk=trainer.id)
    assert (row.state, row.attempts.count()) == ("finished", 1)
    assert points(trainer.id, "eval/accuracy") == [(0, 0.5)]


def test_another_program_takes_over_from_one_that_is_silent(connected: User) -> None:
    first = run_begin("lab")
    delivered(first)
    second = run_begin("lab", id=first.id, resume="allow")
    delivered(second)
    Producer.objects.filter(run_id=first.id).order_by(
        "pk"
    ).first().delete()  # the first one was ended by SIGKILL
    second.log({"loss": 1.0}, step=3)
    assert second.finish()
    row = Run.objects.get(pk=first.id)
    assert (row.state, row.iteration, row.attempts.count()) == ("finished", 3, 1)
    assert first.finish() and Run.objects.get(pk=first.id).iteration == 3


def test_a_program_changes_its_config(connected: User) -> None:
    run = run_begin("lab", config={"lr": 1, "deep": {"a": 1}})
    run.configure({"lr": 2, "late": None})
    run.finish()
    stored = Run.objects.get()
    assert stored.config["client"] == {"lr": 2, "deep": {"a": 1}, "late": None}
    assert stored.attempts.count() == 1
    evaluator = run_begin("lab", id=run.id, role="evaluator", config={"lr": 3})
    with pytest.raises(TroupeError, match="role"):
        evaluator.configure({"lr": 3})
    evaluator.finish()
    stored.refresh_from_db()
    assert stored.config["client"]["lr"] == 2


def test_a_project_is_found_by_the_name_that_pages_show(connected: User) -> None:
    twins = [Project.objects.create(slug=slug, name="Twins") for slug in ("twin-1", "twin-2")]
    for project in twins:
        Membership.objects.create(project=project, user=connected, level=Membership.Level.OWNER)
    run = run_begin("Lab")
    assert run.finish() and Run.objects.get(pk=run.id).project.slug == "lab"
    with pytest.raises(TroupeError, match="twin-1"):
        run_begin("Twins")


def test_what_is_not_yours_is_refused(
    connected: User, live_server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    stranger = User.objects.create_user("eve", password="correct horse battery")
    mine = troupe.init("lab")
    mine.finish()
    monkeypatch.setenv("TROUPE_TOKEN", token_create(stranger, "script", ["launch"])[1])
    with pytest.raises(TroupeError):
        troupe.init("lab")
    with pytest.raises(TroupeError):
        troupe.init(id=mine.id, resume="must")
    monkeypatch.setenv("TROUPE_TOKEN", token_create(connected, "reader", ["read"])[1])
    with pytest.raises(TroupeError):
        troupe.init("lab")
    assert Run.objects.count() == 1


def test_silence_ends_it_and_a_word_revives_it(connected: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.reporting.reporter.HEARTBEAT_SECONDS", 3600.0)
    run = troupe.init("lab")
    run.log({"loss": 1.0})
    reporter = run._open()
    assert reporter is not None
    for _ in range(400):
        if reporter.acknowledged >= 2:
            break
        reporter._closing.wait(0.05)
    long_ago = timezone.now() - timedelta(hours=1)
    Attempt.objects.filter(run_id=run.id).update(heartbeat_at=long_ago)
    client_run_look_after(run.id, long_ago)
    row = Run.objects.get(pk=run.id)
    assert row.state == "failed" and "has not reported for" in row.reason
    run.log({"loss": 0.5})
    assert run.finish()
    assert Run.objects.get(pk=run.id).state == "finished"


def test_pause_is_refused_in_words(connected: User) -> None:
    with troupe.init("lab") as run, pytest.raises(TroupeError, match="custom program"):
        find_server().call(f"/api/v1/runs/{run.id}/pause/", {})


def test_ids_of_other_projects_cannot_be_tried_out(connected: User) -> None:
    eve = User.objects.create_user("eve")
    theirs = Project.objects.create(slug="theirs", name="Theirs")
    Membership.objects.create(project=theirs, user=eve, level=Membership.Level.OWNER)
    taken = client_run_begin(eve, theirs, ClientRunBody(id="takenabc"))[0]
    lab = Project.objects.get(slug="lab")
    for _ in range(GUESSES):
        with pytest.raises(TransitionRefused, match="choose another one"):
            client_run_begin(connected, lab, ClientRunBody(id=taken.pk))
    for name in (taken.pk, "freeabcd"):
        with pytest.raises(TransitionRefused, match="wait an hour"):
            client_run_begin(connected, lab, ClientRunBody(id=name))
    assert client_run_begin(eve, theirs, ClientRunBody(id="freeabcd"))[0].pk == "freeabcd"


@pytest.mark.parametrize("omitted", [[], ["run", "checkpoint", "algorithm"]])
def test_the_config_of_an_imported_run_is_shown_and_never_run(
    connected: User, client: Client, omitted: list[str]
) -> None:
    """It names code that this server does not permit: every way to run it is refused, and the code is not imported."""
    environment = {"type": "custom", "path": "tests.never_imported:World"}
    config = load_config("plan_path_duo", {"environment": environment}).model_dump(mode="json")
    partial_config = {name: section for name, section in config.items() if name not in omitted}
    client.force_login(connected)

    def post(path: str, body: dict[str, Any]) -> Any:
        return client.post(f"/api/v1/{path}", body, content_type="application/json")

    assert post("client-runs/", {"id": "abcd2345", "resolved": partial_config}).status_code == 200
    run = Run.objects.get()
    assert set(run.config) == set(config), "pages need every section"
    for page in ("", "config/", "curves/"):
        assert client.get(f"/runs/{run.pk}/{page}").status_code == 200
    assert post(f"runs/{run.pk}/stop/", {}).status_code == 200
    client_run_look_after(run.pk, timezone.now() - timedelta(hours=1))
    for path in ("resume/", "checkpoints/last/fork/"):
        assert post(f"runs/{run.pk}/{path}", {}).status_code == 409
    refused = [
        post("jobs/", {"kind": "evaluate", "run": run.pk, "checkpoint": "base"}),
        post("jobs/", {"kind": "dry_run", "config": run.config}),
        post("runs/", {"config": run.config}),
        post("estimate/", {"config": run.config}),
        post("templates/", {"name": "copy", "run": run.pk}),
    ]
    assert [(answer.status_code, list(answer.json()["errors"])) for answer in refused] == [
        (400, ["environment.path"])
    ] * 5
    form = client.get(f"/experiments/new/?from={run.pk}").content.decode()
    assert "TROUPE_IMPORT_PACKAGES" in form
    assert Run.objects.count() == 1 and not Job.objects.exists() and "tests.never_imported" not in sys.modules


@pytest.mark.parametrize("last", ["stopped", "paused", "finished"])
def test_a_report_does_not_undo_a_stop_request(run: Run, say: Callable[..., Any], last: str) -> None:
    Run.objects.filter(pk=run.pk).update(source="client", state="running")
    Attempt.objects.create(run=run, number=1, submission_id="s", state="live")
    assert run_stop(run.owner, run).state == "stopping"
    say("running", 1)
    assert Run.objects.get(pk=run.pk).state == "stopping"
    Run.objects.filter(pk=run.pk).update(stop_requested="")
    say(last, 2)
    stored = Run.objects.get(pk=run.pk)
    assert stored.state == last and stored.ended_at


__all__ = ["connected"]  # a fixture


def executed(program: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a program in a process of its own, against the server of the environment."""
    file = tmp_path / "program.py"
    file.write_text(program)
    return subprocess.run(
        [sys.executable, file], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True,
        text=True,
    )  # fmt: skip


@pytest.mark.extended
def test_the_first_program_of_the_documentation_runs(connected: User, tmp_path: Path) -> None:
    program = next(fence.text for fence in fences("docs/use/client.md") if fence.language == "python")
    done = executed(program, tmp_path)
    assert done.returncode == 0, done.stderr
    run = Run.objects.get()
    assert run.name == "grpo on maths" and run.state == "finished" and run.iteration == 1000
    assert done.stderr.count(f"/runs/{run.pk}/") == 1


def test_an_unknown_project_is_one_sentence_without_internals(connected: User, tmp_path: Path) -> None:
    done = executed('import troupe\ntroupe.init("harbour")\n', tmp_path)
    assert done.returncode == 1
    message = "there is no project 'harbour'; yours are: lab. Create it with `troupe project create`"
    assert message in done.stderr.splitlines()[-1]
    assert done.stderr.count('File "') == 2 and "server_api.py" not in done.stderr


def test_the_link_of_a_run_is_printed_once(connected: User, capsys: pytest.CaptureFixture[str]) -> None:
    run = troupe.init("lab")
    run.log({"a": 1.0})
    troupe.finish()
    assert capsys.readouterr().err.count(run.url) == 1
    assert f'href="{run.url}"' in run._repr_html_()
    with pytest.raises(TroupeError, match="yours are: lab"):
        troupe.init("<b>harbour")

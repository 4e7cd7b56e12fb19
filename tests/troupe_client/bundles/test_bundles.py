"""Runs in one file: what it has, and its import into a server, where the run is equal and a repetition adds nothing."""

import base64
import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.end_to_end.conftest import run_make, run_told, tell
from tests.end_to_end.seed import START, Story, hostile
from tests.troupe_client.cli.conftest import Troupe, ada, connected, run, troupe
from training_core.errors import TroupeError
from troupe_client.bundles.importing import bundle_read, run_import
from troupe_client.bundles.writing import DATA, STATIC, page_script, run_document
from troupe_client.server_api import find_server
from webapp.accounts.models import Membership, Project, User
from webapp.accounts.tokens import token_create
from webapp.runs.models import Attempt, Run
from webapp.transcripts.models import EpisodeAnnotation
from workers.reporting.encoding import encode

__all__ = ["ada", "connected", "run", "troupe"]
SAME = ("name", "tags", "state", "config", "iteration", "iterations", "remedy")
OWN = ("id", "run", "notes", "staleness")
"""Fields of an episode that belong to its server, or to the batches of an update, which a bundle does not have."""


@pytest.fixture
def told(connected: str, ada: User) -> Run:
    """A run of two attempts, the second of which repeats two iterations and fails; numbers that are not finite, odd text."""
    run, story = run_told(ada, "two <attempts>", "running", iterations=4)
    tell(run, story.media(2))
    tell(run, story.ending(4, "stopped", "its machine went away"))
    run.refresh_from_db()
    Attempt.objects.create(run=run, number=2, state="live", submission_id="2", resumed_iteration=2)
    run.state, run.tags = "running", ["baseline", "a b"]
    run.save()
    again = Story(run.pk, 2, 1, START + 100)
    tell(run, again.opening())
    tell(run, again.iterations(2, 5))
    values = {"loss": "NaN", "top": "Infinity", "=1+1": 0.1 + 0.2}
    tell(
        run,
        [again.event("metrics", step=5, values=values), again.event("metrics", step=5, values={"loss": 1.0})],
    )
    tell(run, again.media(3))
    tell(run, hostile(again.training_episode(5, 7)))
    odd = next(event for event in again.training_episode(5, 8) if event["type"] == "episode")
    odd["turns"][0]["candidates"][0]["text"] = "one\u2028two\x85three</script><!-- \ud83d\ude00"
    tell(run, [odd])
    tell(run, again.failing(5, "The disk is full.", "Make room.", "Traceback"))
    run.refresh_from_db()
    assert run.state == "failed" and run.attempts.count() == 2
    return run


def written(troupe: Troupe, path: Path, *words: str) -> list[dict[str, Any]]:
    """The documents of a bundle that the command has written."""
    assert troupe("bundle", "create", *words, "-o", str(path)).status == 0
    return bundle_read(path)


def comparable(document: dict[str, Any]) -> tuple[Any, Any, Any, list[dict[str, Any]]]:
    """Facts of the run, metrics, media, and episodes in the order of their names; without ids, as JSON."""
    document = json.loads(encode(document))
    episodes = [
        {name: value for name, value in episode.items() if name not in OWN}
        for episode in document["episodes"]
    ]
    facts = {name: document["run"][name] for name in SAME} | {"attempts": len(document["run"]["attempts"])}
    return (
        facts | {"tags": sorted(facts["tags"])},
        document["metrics"],
        document["media"],
        sorted(episodes, key=lambda item: item["name"]),
    )


def test_an_imported_run_is_equal(troupe: Troupe, told: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    (original,) = written(troupe, path, told.pk)
    result = troupe("bundle", "import", str(path), "--json")
    assert result.status == 0, result.err
    (imported,) = json.loads(result.out)
    assert imported["from"] == told.pk and imported["run"] != told.pk
    copy = run_document(find_server(), imported["run"])
    assert len(original["episodes"]) == len(copy["episodes"]) == 20 and original["metrics"]["loss"][
        "values"
    ] == ["NaN", 1.0]
    assert {item["attempt"] for item in copy["media"]} == {1, 2}
    for one, two in zip(comparable(original), comparable(copy), strict=True):
        assert one == two
    assert [one["ended_as"] for one in copy["run"]["attempts"]] == ["stopped", "failed"]


@pytest.mark.extended
def test_a_repeated_import_adds_what_is_new_and_nothing_twice(
    troupe: Troupe, connected: str, ada: User, tmp_path: Path
) -> None:
    run, story = run_told(ada, "grows", "running", iterations=3)
    path, server = tmp_path / "a.html", find_server()
    written(troupe, path, run.pk)
    assert troupe("bundle", "import", str(path)).status == 0
    copy = Run.objects.exclude(pk=run.pk).get()
    assert copy.state == "stopped", "the run had not ended"
    before = comparable(run_document(server, copy.pk)), copy.event_count, EpisodeAnnotation.objects.count()
    assert troupe("bundle", "import", str(path)).status == 0
    copy.refresh_from_db()
    assert before == (
        comparable(run_document(server, copy.pk)),
        copy.event_count,
        EpisodeAnnotation.objects.count(),
    )
    tell(run, story.iterations(3, 6))
    (longer,) = written(troupe, path, run.pk)
    assert troupe("bundle", "import", str(path)).status == 0
    assert comparable(longer)[1:] == comparable(run_document(server, copy.pk))[1:]
    assert Run.objects.count() == 2 and Run.objects.get(pk=copy.pk).iteration == 6


def test_a_run_of_a_custom_program_and_a_config_of_another_version(
    troupe: Troupe, connected: str, ada: User, tmp_path: Path
) -> None:
    body = {
        "id": "abcd2345",
        "name": "trl",
        "config": {"lr": 0.1},
        "team": {"solver": "actor"},
        "steps": 9,
        "tags": ["x"],
    }
    find_server().call("/api/v1/client-runs/", body)
    other = run_make(ada, "newer")
    other.config["algorithm"]["unheard_of"] = 1
    other.save()
    path = tmp_path / "a.html"
    documents = written(troupe, path, "abcd2345", other.pk)
    result = json.loads(troupe("bundle", "import", str(path), "--json").out)
    trl, newer = (Run.objects.get(pk=item["run"]) for item in result)
    assert (trl.config, trl.tags, trl.iterations) == (documents[0]["run"]["config"], ["x"], 9)
    assert newer.config["client"] == other.config and newer.config["team"]["order"] == ["planner", "executor"]


def test_two_people_import_one_bundle_each_into_their_first_project(
    troupe: Troupe, connected: str, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, eve = tmp_path / "a.html", User.objects.create_user("eve")
    written(troupe, path, run.pk)
    assert troupe("bundle", "import", str(path)).status == 0
    for slug, level in (("all", Membership.Level.VIEWER), ("own", Membership.Level.EDITOR)):
        project = Project.objects.create(slug=slug, name=slug)
        Membership.objects.create(project=project, user=eve, level=level)
    monkeypatch.setenv("TROUPE_TOKEN", token_create(eve, "cli", ["launch"])[1])
    for _ in range(2):
        result = troupe("bundle", "import", str(path))
        assert result.status == 0, result.err
    copies = Run.objects.exclude(pk=run.pk).order_by("created_at")
    assert [copy.project.slug for copy in copies] == ["lab", "own"]


def test_the_newest_episodes_and_nothing_else_are_chosen(troupe: Troupe, told: Run, tmp_path: Path) -> None:
    (few,) = written(troupe, tmp_path / "a.html", told.pk, "--episodes", "3")
    assert [episode["name"] for episode in few["episodes"]] == ["2-5-train-8", "2-5-train-7", "2-5-train-1"]


def test_the_file_has_no_address_and_no_text_of_an_agent(troupe: Troupe, told: Run, tmp_path: Path) -> None:
    """Text is in the encoded data only; the policy permits no script but those of the page."""
    path = tmp_path / "a.html"
    written(troupe, path, told.pk)
    page = path.read_text()
    head = page.partition("<style>")[0]
    assert "<title>two &lt;attempts&gt;</title>" in head and "default-src 'none'" in head
    assert "unsafe-eval" not in head and "'unsafe-inline'" not in head.partition("script-src")[2]
    assert "window.hacked" not in page and "src=" not in page.partition("<body>")[2].partition("<script>")[0]


def test_a_damaged_file_is_refused(troupe: Troupe, told: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    written(troupe, path, told.pk)
    text = path.read_text()
    for damaged in (text[: text.index(DATA) + 5000], "<html></html>", text.replace("H4sI", "AAAA", 1)):
        path.write_text(damaged)
        refused = troupe("bundle", "import", str(path))
        assert refused.status == 1 and "is not a bundle" in refused.err
    assert Run.objects.count() == 1


def test_the_script_has_each_module_once_after_those_that_it_imports() -> None:
    script = page_script(STATIC / "js" / "bundle.js")
    defined = [line.split('"')[1] for line in script.splitlines() if line.startswith("modules[")]
    assert len(defined) == len(set(defined)) and defined[-1] == "bundle.js" and "boards/grid.js" in defined
    for line in script.splitlines():
        assert not line.startswith(("import ", "export "))
        if line.startswith("const {") and "modules[" in line:
            assert defined.index(line.split('"')[1]) < len(defined)


@pytest.mark.slow
def test_two_runs_with_one_id_never_become_one(connected: str, told: Run) -> None:
    server = find_server()
    document = json.loads(encode(run_document(server, told.pk)))
    copy = Run.objects.get(pk=run_import(server, document, "lab"))
    before = comparable(run_document(server, copy.pk)), copy.event_count, copy.config
    metrics = json.loads(json.dumps(document["metrics"]))
    metrics["loss"]["values"][-1] = 999.0
    episodes = [episode | {"episode_return": 999.0} for episode in document["episodes"]]
    media = [item | {"step": item["step"] + 100} for item in document["media"]]
    for changed, what in (
        (document | {"metrics": metrics}, "the metric loss at step 5"),
        (document | {"metrics": {"other": metrics["loss"]}}, "the metric"),
        (document | {"metrics": {}, "media": [], "episodes": []}, "nothing in common"),
        (document | {"episodes": episodes}, "the episode"),
        (document | {"media": media}, "media"),
    ):
        with pytest.raises(TroupeError, match=f"was imported from another bundle, which has .*{what}"):
            run_import(server, changed, "lab")
    copy.refresh_from_db()
    assert before == (comparable(run_document(server, copy.pk)), copy.event_count, copy.config)


BROKEN: dict[str, Any] = {
    "a text": "run",
    "no run": {"metrics": {}},
    "no config": {"run": {"id": "a", "name": "a"}, "metrics": {}, "episodes": []},
    "metrics of another type": {"metrics": [1]},
    "a point of an unknown attempt": {"metrics": {"a": {"attempts": [9], "steps": [1], "times": [1.0], "values": [1.0]}}},
    "columns of different lengths": {"metrics": {"a": {"attempts": [1], "steps": [], "times": [1.0], "values": [1.0]}}},
    "episodes of another type": {"episodes": [{"turns": 5}]},
    "a config of another type": {"run": {"config": 5}},
}  # fmt: skip


def test_a_broken_document_is_one_sentence(troupe: Troupe, connected: str, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    (whole,) = written(troupe, path, run.pk)
    for what, broken in BROKEN.items():
        document = broken
        if isinstance(broken, dict) and what.startswith(("metrics", "a ", "columns", "episodes")):
            document = whole | broken | {"run": whole["run"] | broken.get("run", {})}
        path.write_text(DATA + packed([document]) + "</script>")
        refused = troupe("bundle", "import", str(path))
        assert refused.status == 1 and "damaged" in refused.err and "Traceback" not in refused.err, what
    assert Run.objects.count() == 1


def packed(runs: list[Any]) -> str:
    return base64.b64encode(gzip.compress(encode({"format": 1, "runs": runs}))).decode()


def test_a_bundle_that_expands_too_far_is_refused_before_it_is_in_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.html"
    for runs in (["a" * (3 << 20)], [[]] * 150_000):
        path.write_text(DATA + packed(runs) + "</script>")
        with pytest.raises(TroupeError, match="expands to more than 1 MiB, or to more than 100,000 values"):
            bundle_read(path, most_mib=1)

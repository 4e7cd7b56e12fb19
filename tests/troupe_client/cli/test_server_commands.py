"""Commands that talk to the server, against the real API."""

import json
import re
from pathlib import Path

import pytest

from tests.troupe_client.cli.conftest import Troupe
from tests.webapp.compare.test_curves import told as series_told
from tests.webapp.provenance.test_provenance import COMMIT, facts
from training_core.config.files import load_config, to_toml
from webapp.accounts.tokens import token_create
from webapp.ingest.services import batch_store
from webapp.metrics.models import Series
from webapp.metrics.selectors import series_read
from webapp.provenance.services import provenance_read, provenance_store
from webapp.runs.models import Attempt, LogLine, Phase, Run, RunState
from workers.launchers.launcher import Capacity
from workers.launchers.registry import FakeLauncher
from workers.reporting.reporter import Reporter
from workers.storage.folders import RunFolder

pytestmark = pytest.mark.usefixtures("connected")


def test_launch_a_preset_with_overrides(troupe: Troupe, connected: str) -> None:
    result = troupe("launch", "plan_path_duo", "run.seed=7", "--name", "seven", "--tag", "a", "--tag", "b")
    run = Run.objects.get()
    assert result.status == 0
    assert result.out.split() == [run.pk, "queued", f"{connected}/runs/{run.pk}/"]
    assert (run.name, run.tags, run.preset) == ("seven", ["a", "b"], "plan_path_duo")
    assert run.config["run"]["seed"] == 7


def test_launch_a_file_with_overrides(troupe: Troupe, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(to_toml(load_config("plan_path_duo", {"run.seed": 3}), only_set=True))
    made = json.loads(troupe("launch", str(path), "run.iterations=5", "--json").out)
    run = Run.objects.get(pk=made["id"])
    assert (run.config["run"]["seed"], run.iterations, run.preset) == (3, 5, "")


def test_config_errors_name_their_fields(troupe: Troupe) -> None:
    result = troupe("launch", "plan_path_duo", "rollout.group_size=1", "policies.planner.learner.betas=7")
    assert (result.status, result.out) == (1, "") and "policies.planner.learner.betas: " in result.err
    assert "team.roles.executor.policy: there is no policy 'judge'" in troupe(
        "launch", "plan_path_duo", "team.roles.executor.policy=judge"
    ).err.replace("\n", " ")
    assert "Presets are plan_path_duo" in troupe("launch", "plan_path_solo").err
    assert not Run.objects.exists()


def test_a_dry_run_reports_settings_without_effect(troupe: Troupe) -> None:
    words = ("launch", "plan_path_duo", "algorithm.correction_cap=3.0")
    result = troupe(*words, "--dry-run")
    assert (result.status, result.out) == (0, "The config is valid. Nothing was launched.\n")
    warning = 'warning: algorithm.correction_cap has no effect here: correction = "none" leaves it unused\n'
    assert result.err == warning
    told = json.loads(troupe(*words, "--dry-run", "--json").out)
    assert told["unused"] == [
        {"path": "algorithm.correction_cap", "why": 'correction = "none" leaves it unused'}
    ]
    assert not Run.objects.exists()
    launched = troupe(*words, "--json")
    assert launched.err == warning and Run.objects.get().pk == json.loads(launched.out)["id"]
    assert troupe("launch", "plan_path_duo", "--dry-run").err == ""


def test_names_of_runs_are_printed_without_markup(troupe: Troupe, run: Run) -> None:
    result = troupe("runs")
    assert run.pk in result.out
    assert "first [bold]try[/bold]" in result.out
    assert json.loads(troupe("runs", "--json").out)[0]["id"] == run.pk
    assert "No such run" in troupe("runs", "--state", "failed").out


def test_watch_shows_metrics_and_log(troupe: Troupe, run: Run, connected: str, tmp_path: Path) -> None:
    run.state = RunState.RUNNING
    run.save()
    Attempt.objects.create(run=run, number=1, submission_id="one", state=Attempt.State.LIVE)
    secret = token_create(run.owner, "ingest", ["ingest"], run_id=run.pk)[1]
    folder = RunFolder(tmp_path / "run")
    reporter = Reporter(folder, run.pk, 1, f"{connected}/api/v1/runs/{run.pk}/events/", secret)
    for step in range(1, 5):
        reporter.metrics(step, {"eval/success": step / 4, "train/return": float("nan")})
    reporter.log("info", "driver", "all is [red]well[/red]")
    assert reporter.close(timeout=300)
    result = troupe("show", run.pk)
    assert result.status == 0
    for part in ("1.000", "▁", "█", "all is [red]well[/red]", "running"):
        assert part in result.out


def test_logs_print_every_line_once(troupe: Troupe, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state=RunState.FAILED)
    for number in range(7):
        line = {"level": "info", "source": "driver", "message": f"line {number}"}
        LogLine.objects.create(run=run, attempt=1, cursor=number, time="2026-01-02T03:04:05Z", **line)
    followed = troupe("logs", "-f", run.pk, "--limit", "3")
    assert followed.out.splitlines() == ["line 4", "line 5", "line 6", "failed after iteration 0"]
    assert followed.status == 1
    assert troupe("logs", run.pk, "--limit", "1").out.splitlines() == ["line 6"]
    assert json.loads(troupe("logs", run.pk, "--limit", "1", "--json").out)["message"] == "line 6"
    LogLine.objects.filter(message="line 2").update(source="environment-0", level="output")
    assert troupe("logs", run.pk, "--source", "environment-0").out == "environment-0: line 2\n"
    assert "line 2" not in troupe("logs", run.pk, "--level", "info").out
    assert troupe("logs", run.pk, "-q", "LINE 3").out == "line 3\n"
    assert "level: use" in troupe("logs", run.pk, "--level", "loud").err
    Run.objects.filter(pk=run.pk).update(state=RunState.FINISHED)
    assert troupe("logs", "-f", run.pk).status == 0


def test_stop_resume_with_changes_and_pause(troupe: Troupe, run: Run) -> None:
    assert troupe("stop", run.pk).out.split() == [run.pk, "stopped"]
    words = ("algorithm.clip_low=0.1", "run.iterations=300", "--json")
    assert json.loads(troupe("resume", run.pk, *words).out)["state"] == "queued"
    run.refresh_from_db()
    assert run.edits == {"algorithm.clip_low": 0.1, "run.iterations": 300}
    assert (run.config["algorithm"]["clip_low"], run.iterations) == (0.1, 300)
    assert troupe("pause", run.pk).out.split() == [run.pk, "paused"]


def test_stop_waits_for_the_iteration_unless_now(troupe: Troupe, run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(state=RunState.RUNNING)
    result = troupe("stop", run.pk).out
    assert re.match(
        rf"{run.pk}  stopping  Stopping: the workers are still starting; requested \d s ago\.", result
    )
    run.refresh_from_db()
    assert run.end_requested_at is None
    assert "the driver writes a checkpoint" in troupe("stop", run.pk, "--now").out
    run.refresh_from_db()
    assert run.end_requested_at is not None


def test_a_wrong_token_is_refused_with_the_remedy(troupe: Troupe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TROUPE_TOKEN", "nonsense")
    result = troupe("runs")
    assert result.status == 1 and "API tokens" in result.err and "TROUPE_TOKEN" in result.err


def test_sync_delivers_each_event_once(troupe: Troupe, run: Run, tmp_path: Path) -> None:
    Attempt.objects.create(run=run, number=1, submission_id="one", state=Attempt.State.ENDED)
    reporter = Reporter(RunFolder(tmp_path / "home" / "runs" / run.pk), run.pk, 1)  # never reached a server
    reporter.metrics(1, {"train/return": 0.5})
    reporter.close()
    assert "1 events of 1 spools delivered, 0 refused" in troupe("sync", run.pk).out
    assert "0 events of 1 spools delivered" in troupe("sync", run.pk).out
    assert series_read(run, ["train/return"])["train/return"]["values"] == [0.5]


@pytest.mark.parametrize("name", ["nothing", "../runs", "."])
def test_sync_without_a_run_folder_names_the_path(troupe: Troupe, name: str, tmp_path: Path) -> None:
    (tmp_path / "home" / "runs").mkdir(parents=True)
    result = troupe("sync", name)
    assert (result.status, "TROUPE_HOME" in result.err) == (1, True)


def test_runs_by_filter(connected: str, troupe: Troupe, run: Run) -> None:
    (row,) = json.loads(troupe("runs", "--filter", "algorithm.type = at_grpo", "--json").out)
    assert row["id"] == run.pk
    assert troupe("runs", "--filter", "algorithm.type = other", "--json").out.strip() == "[]"
    wrong = troupe("runs", "--filter", "state = ")
    assert wrong.status == 1 and "is incomplete" in wrong.err


def test_runs_with_columns_of_ones_own(connected: str, troupe: Troupe, run: Run) -> None:
    Series.objects.create(run=run, key="a/b", last_value=0.75, first_value=0.5, max_value=2.0)
    words = ("--columns", "algorithm.type,a/b,a/b:max,no/such", "--sort", "-a/b")
    result = troupe("runs", *words).out
    assert "at_grpo" in result and "0.750 (+0.250)" in result and "2.000 (+1.500)" in result and "–" in result
    (row,) = json.loads(troupe("runs", *words, "--json").out)
    assert row["columns"] == {"algorithm.type": "at_grpo", "a/b": 0.75, "a/b:max": 2.0, "no/such": None}
    wrong = troupe("runs", "--columns", "colour")
    assert wrong.status == 1 and "not a column" in wrong.err


def test_views_are_kept_and_used(connected: str, troupe: Troupe, run: Run) -> None:
    assert "No views yet" in troupe("view", "list").out
    query = ("--filter", "state = queued", "--columns", "run.seed", "--sort", "-run.seed")
    assert "yours" in troupe("view", "save", "mine", *query).out
    assert "lab" in troupe("view", "save", "failures", "--filter", "state = failed", "--project", "lab").out
    assert "default" in troupe("view", "edit", "mine", "--name", "waiting", "--default").out
    listed = troupe("view", "list").out
    assert "waiting" in listed and "filter=state = queued" in listed and "failures" in listed
    (row,) = json.loads(troupe("runs", "--view", "waiting", "--json").out)
    assert row["columns"] == {"run.seed": run.config["run"]["seed"]}
    assert "No such run" in troupe("runs", "--view", "failures").out
    assert run.pk in troupe("runs", "--view", "failures", "--filter", "state = queued").out
    assert "deleted" in troupe("view", "delete", "waiting").out
    gone = troupe("runs", "--view", "waiting")
    assert gone.status == 1 and "there is no view 'waiting'" in gone.err


def test_one_act_on_many_runs(connected: str, troupe: Troupe, run: Run) -> None:
    result = troupe("bulk", "tag", "mine", "--filter", "state = queued")
    assert result.status == 0 and "done" in result.out
    run.refresh_from_db()
    assert "mine" in run.tags
    refused = troupe("bulk", "archive", run.pk)
    assert refused.status == 1 and "stop it first" in refused.out
    assert troupe("bulk", "archive").status == 1
    families = json.loads(troupe("family", "list", "--json").out)
    assert [row["runs"] for row in families] == [1]
    assert run.name.split()[0] in troupe("family", "list").out


def test_compare_prints_groups(connected: str, troupe: Troupe, run: Run) -> None:
    Series.objects.create(run=run, key="eval/success", last_value=0.75)
    result = troupe("compare", run.pk, "--by", "algorithm.type")
    assert result.status == 0 and "at_grpo" in result.out and "0.750" in result.out
    assert json.loads(troupe("compare", run.pk, "--json").out)["groups"][0]["n"] == 1
    assert run.pk in troupe("compare", run.pk, "--key", "no/such").out
    assert troupe("compare").status == 1
    assert "fields are equal in all groups" in troupe("comparison", "config", run.pk).out
    assert "at_grpo" in troupe("comparison", "config", run.pk, "--all").out
    assert "run,name,eval/success" in troupe("comparison", "table", run.pk).out
    Run.objects.filter(pk=run.pk).update(name="=1+1")
    assert f"{run.pk},'=1+1," in troupe("comparison", "table", run.pk).out
    assert "No evaluation" in troupe("comparison", "probes", run.pk).out
    series_told(run, "train/return", [(1, 0.5), (2, 1.5)])
    header, *rows = troupe("comparison", "curves", run.pk, "--key", "train/return").out.splitlines()
    assert header == "group,step,mean,low,high,n"
    assert [row.split(",")[1:] for row in rows] == [
        ["1.0", "0.5", "", "", "1"],
        ["2.0", "1.5", "", "", "1"],
    ]


def test_timeline_prints_shares(connected: str, troupe: Troupe, run: Run) -> None:
    assert "No spans" in troupe("timeline", "show", run.pk).out
    spans = {"attempt": 1, "cursor": 1, "iteration": 3}
    Phase.objects.create(run=run, worker="driver", phase="rollout", start=10.0, end=13.0, **spans)
    Phase.objects.create(run=run, worker="up", phase="update", start=13.0, end=14.0, policy="p", **spans)
    result = troupe("timeline", "show", run.pk).out
    assert "rollout 75%" in result and "25%" in result and "iterations 3 to 3" in result
    later = troupe("timeline", "show", run.pk, "--json", "--first", "4", "--last", "5")
    assert json.loads(later.out)["lanes"] == []
    assert "up p waited 3.0 s (75%) for driver" in result
    part = json.loads(troupe("timeline", "show", run.pk, "--json", "--moments", "12", "14").out)
    assert (part["start"], part["end"], part["lanes"][1]["waited"]) == (12.0, 14.0, 1.0)
    assert "two times in order" in troupe("timeline", "show", run.pk, "--moments", "14", "12").err
    Phase.objects.filter(run=run, worker="up").update(flops=2.5e9)
    assert "update 2.5 GFLOP/s, peak not known" in troupe("timeline", "show", run.pk).out
    Phase.objects.filter(run=run, worker="up").update(peak=1e10)
    assert "update 25.0% MFU, 2.5 GFLOP/s" in troupe("timeline", "show", run.pk).out


def test_batch_lists_episodes_and_their_times(connected: str, troupe: Troupe, run: Run) -> None:
    Attempt.objects.create(run=run, number=1, submission_id="b", state=Attempt.State.LIVE)
    stage = {
        "kind": "generate", "start": 3.0, "end": 5.5, "role": "planner", "policy": "p", "versions": [2, 2],
    }  # fmt: skip
    episode = {
        "episode": "1-4-train-0", "success": True, "episode_return": 1.5, "length": 7, "tokens": 9, "turns": 2,
        "staleness": 1, "queued": 1.0, "started": 3.0, "ended": 6.0, "stages": [stage],
    }  # fmt: skip
    head = {"run": run.pk, "attempt": 1, "producer": "p", "seq": 1, "time": 9.0, "type": "batch"}
    batch = head | {"iteration": 4, "consumed": 7.0, "learnt": 8.0, "episodes": [episode]}
    batch_store(run.pk, json.dumps(batch).encode(), "")
    found = json.loads(troupe("timeline", "batch", run.pk, "4", "--json").out)
    seconds = {"queued": 2.0, "generate": 2.5, "environment": 0.0, "update": 1.0}
    assert found["episodes"][0]["seconds"] == seconds
    assert "1 episodes in 7.0 s" in troupe("timeline", "batch", run.pk, "4", "--sort=-reward").out
    assert "no recorded batch of iteration 5" in troupe("timeline", "batch", run.pk, "5").err


def test_cluster_shows_allocations_and_missing_resources(
    troupe: Troupe, connected: str, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = FakeLauncher(devices=Capacity(0.5, 0.0, 0.5, 0.0))
    monkeypatch.setattr("webapp.cluster.services.make_launcher", lambda kind: fake)
    result = troupe("cluster", "show")
    assert result.status == 0 and run.pk in result.out
    assert "first [bold]try[/bold]" in result.out and "the cluster has 0.5" in result.out
    assert json.loads(troupe("cluster", "show", "--json").out)["runs"][0]["place"] == 1
    fake.reachable = False
    assert "The cluster does not answer" in troupe("cluster", "show").out


def test_the_record_is_printed_and_its_patch(troupe: Troupe, run: Run, connected: str) -> None:
    assert "No provenance yet" in troupe("provenance", run.pk).out
    provenance_store(
        run, 0, provenance_read(facts(command="troupe launch [bold]x[/bold]") | {"via": "command line"})
    )
    data = [{"field": "environment.path", "path": "tasks.jsonl", "bytes": 9, "sha256": "e" * 64}]
    provenance_store(run, 1, provenance_read(facts(diff="", data=data, installed={"torch": "2.13.0"})))
    out = troupe("provenance", run.pk).out
    for part in ("troupe launch [bold]x[/bold]", "box, Linux, EPYC, Python 3.11", COMMIT, "1 changed files",
                 "tasks.jsonl sha256 eeeeeeeeeeee", "torch 2.13.0", "attempt 1"):  # fmt: skip
        assert part in out
    assert troupe("provenance", run.pk, "--diff").out == "+speed = 2 <b>\n"
    assert json.loads(troupe("provenance", run.pk, "--json").out)["launch"]["attempt"] == 0
    assert "no uncommitted changes" in troupe("provenance", run.pk, "--diff", "--attempt", "1").err
    assert "attempts with one: 1" in troupe("provenance", run.pk, "--attempt", "7").err
    assert troupe("provenance", run.pk, "--diff", "--json").status == 1

"""Sweeps and templates by command, against the real API."""

import io
import json

import pytest

from tests.troupe_client.cli.conftest import Troupe
from webapp.experiments.models import Sweep, Template
from webapp.runs.models import Run
from workers.launchers.launcher import Capacity
from workers.launchers.registry import FakeLauncher

pytestmark = pytest.mark.usefixtures("connected")
RATES = "policies.*.learner.learning_rate"
WORDS = ("sweep", "launch", "plan_path_duo", "run.iterations=3", "--grid", f"{RATES}=1e-4,3e-4")
WORDS += ("--seeds", "0..2")


def test_a_plan_launches_nothing(troupe: Troupe) -> None:
    result = troupe(*WORDS, "--plan")
    assert result.status == 0
    assert result.out.startswith("6 runs, 18 iterations, at most ")
    planned = json.loads(troupe(*WORDS, "--plan", "--json").out)
    assert planned["cost"]["runs"] == 6 and planned["axes"] == {RATES: [1e-4, 3e-4], "run.seed": [0, 1, 2]}
    assert not Sweep.objects.exists() and not Run.objects.exists()


def test_a_sweep_is_launched_only_after_confirmation(troupe: Troupe, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("n\n"))
    assert troupe(*WORDS).status == 1
    assert not Sweep.objects.exists()


def test_launch_list_show_and_stop(troupe: Troupe, connected: str) -> None:
    assert "troupe sweep launch PRESET" in troupe("sweep", "list").out
    result = troupe(*WORDS, "--name", "rates", "--tag", "a", "--yes")
    sweep = Sweep.objects.get()
    assert f"sweep {sweep.pk}  6 runs  {connected}/experiments/sweeps/{sweep.pk}/" in result.out
    assert (sweep.name, sweep.runs.count(), sweep.runs.first().tags) == ("rates", 6, ["a"])
    assert "rates" in troupe("sweep", "list").out
    assert json.loads(troupe("sweep", "list", "--json").out)[0]["runs"] == 6
    shown = troupe("sweep", "show", str(sweep.pk)).out
    assert all(run.pk in shown for run in sweep.runs.all()) and "0.0003" in shown
    found = json.loads(troupe("sweep", "show", str(sweep.pk), "--sort", "-run.seed", "--json").out)
    assert [row["values"]["run.seed"] for row in found["results"]] == [2, 2, 1, 1, 0, 0]
    assert troupe("sweep", "stop", str(sweep.pk)).out.count("yes") == 6
    assert set(sweep.runs.values_list("state", flat=True)) == {"stopped"}


def test_seeds_share_a_process_unless_told_otherwise(troupe: Troupe) -> None:
    words = ("sweep", "launch", "spread_mappo", "run.iterations=3", "--seeds", "0,1")
    assert "up to 1 CPU cores per process" in troupe(*words, "--plan").out
    apart = troupe(*words, "--separate-processes", "--yes").out
    assert "up to 1 CPU cores per run" in apart and "in one process" not in apart
    assert Sweep.objects.get().separate_processes


def test_seeds_may_be_named_like_a_field(troupe: Troupe) -> None:
    made = json.loads(troupe("sweep", "launch", "plan_path_duo", "run.seed=0..2", "--yes", "--json").out)
    assert [row["values"] for row in made["results"]] == [{"run.seed": seed} for seed in (0, 1, 2)]


def test_lists_go_together(troupe: Troupe) -> None:
    words = ("--list", "rollout.group_size=2,4", "--list", "rollout.tasks=16,8", "--yes", "--json")
    made = json.loads(troupe("sweep", "launch", "plan_path_duo", *words).out)
    values = [row["values"] for row in made["results"]]
    assert values == [
        {"rollout.group_size": 2, "rollout.tasks": 16},
        {"rollout.group_size": 4, "rollout.tasks": 8},
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--grid", "algorithm.lr=1e-4"), "did you mean policies.*.learner.learning_rate?"),
        (("--grid", "rollout.group_size=1,2"), "rollout.group_size: 1: "),
        (("--grid", "rollout.group_size"), "not of the form"),
        (("--grid", "rollout.group_size=2", "--list", "rollout.tasks=2"), "either --grid or --list"),
        ((), "vary at least one field"),
        (("run.seed=0..2", "--seeds", "3"), "--seeds 0..2"),
    ],
)
def test_invalid_sweeps_are_refused(troupe: Troupe, words: tuple[str, ...], message: str) -> None:
    answer = troupe("sweep", "launch", "plan_path_duo", *words, "--yes")
    assert answer.status == 1 and message in answer.err.replace("\n", " ")
    assert "Traceback" not in answer.err and not Sweep.objects.exists()


def test_templates_are_saved_shown_launched_and_deleted(troupe: Troupe) -> None:
    assert "troupe template save" in troupe("template", "list").out
    words = ("run.iterations=5", "--description", "[b]quick[/b]")
    result = troupe("template", "save", "small", "plan_path_duo", *words)
    template = Template.objects.get()
    assert result.out.split() == [str(template.pk), "small", "1", "changes"]
    assert "[b]quick[/b]" in troupe("template", "list").out
    assert "run.iterations = 5" in troupe("template", "show", "small").out
    made = json.loads(troupe("template", "launch", str(template.pk), "run.seed=4", "--json").out)
    run = Run.objects.get(pk=made["id"])
    assert (run.name, run.iterations, run.config["run"]["seed"]) == ("small", 5, 4)
    assert "choose another name" in troupe("template", "save", "small", "plan_path_duo").err
    assert troupe("template", "save", "small", run.pk, "--run", "--replace").status == 0
    assert json.loads(troupe("template", "show", "small", "--json").out)["overrides"]["run.seed"] == 4
    assert "deleted" in troupe("template", "delete", "small").out
    assert not Template.objects.exists()
    assert "there is no template 'small'" in troupe("template", "show", "small").err


def test_an_estimate_says_what_a_run_takes(troupe: Troupe, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeLauncher(devices=Capacity(2.0, 0.0, 2.0, 0.0))
    monkeypatch.setattr("webapp.cluster.services.make_launcher", lambda kind: fake)
    result = troupe("experiment", "estimate", "plan_path_duo", "rollout.group_size=4")
    assert result.status == 0 and result.out.startswith("Fits the cluster now.")
    assert "needs 1.3 CPU cores and 0 GPUs; the cluster has 2 and 0" in result.out
    assert "planner: tiny, fp32, 200,512 parameters" in result.out
    assert "48 episodes, at most 1,920 answers and 15,360 tokens" in result.out
    never = troupe("experiment", "estimate", "plan_path_duo", "resources.environment_workers=100", "--json")
    assert never.status == 1 and json.loads(never.out)["verdict"]["level"] == "never"
    assert troupe("experiment", "estimate", "plan_path_duo", "rollout.tasks=x").status == 1
    assert not Run.objects.exists()


def test_a_team_is_shown(troupe: Troupe, run: Run) -> None:
    words = ("team.roles.executor.trained=false", "team.turn_order=['executor','planner']")
    result = troupe("experiment", "team", "plan_path_duo", *words)
    assert result.status == 0 and result.out.startswith("turn order: executor → planner")
    assert [line.split()[:3] for line in result.out.splitlines()[2:4]] == [
        ["executor", "executor", "frozen"], ["planner", "planner", "trained"]
    ]  # fmt: skip
    stored = json.loads(troupe("experiment", "team", run.pk, "--run", "--json").out)
    assert stored["order"] == ["planner", "executor"]
    assert troupe("experiment", "team", "plan_path_duo", "team.turn_order=['planner']").status == 1


def test_a_profile_is_printed_as_overrides(troupe: Troupe) -> None:
    assert "recommended" in troupe("experiment", "profile", "plan_path_duo").out
    words = troupe("experiment", "profile", "plan_path_duo", "minimal").out.split()
    assert "policies.executor.devices.rollout_gpus=1.0" in words
    assert "resources.environment_workers=8" in words
    assert "profiles are minimal" in troupe("experiment", "profile", "plan_path_duo", "huge").err

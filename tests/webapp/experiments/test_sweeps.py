"""Sweeps: planned, launched, read, stopped; by page and by API."""

from urllib.parse import parse_qs, urlsplit

import pytest
from django.core.exceptions import PermissionDenied
from django.test import Client

from tests.webapp.elements import elements, text_of, texts_of
from training_core.errors import ConfigError
from webapp.accounts.models import AuditEntry, Membership, Project, User
from webapp.experiments.commands import sweep_command
from webapp.experiments.models import Sweep
from webapp.experiments.services import sweep_create
from webapp.experiments.sweeps import plan_make
from webapp.runs.models import Run, RunState

NEW = "/experiments/sweeps/new/"
RATES = "policies.*.learner.learning_rate"
pytestmark = pytest.mark.django_db


def form(**more: object) -> dict[str, object]:
    return {
        "preset": "plan_path_duo", "project": "lab", "shared": "run.iterations=4", "field": [RATES],
        "values": ["3e-4, 1e-3"], "seeds": "0, 1, 2", "method": "grid",
    } | more  # fmt: skip


@pytest.fixture
def sweep(user: User, project: Project) -> Sweep:
    plan = plan_make("plan_path_duo", {"run.iterations": 4}, {RATES: [1e-4, 1e-3], "run.seed": [0, 1]})
    return sweep_create(user, project, plan, tags=["rates"])


def test_a_plan_says_what_it_costs() -> None:
    plan = plan_make("plan_path_duo", {"run.iterations": 4}, {RATES: [3e-4, 1e-3], "rollout.tasks": [8, 16]})
    assert not plan.errors and plan.cost
    assert (plan.cost.runs, plan.cost.iterations) == (4, 16)
    turns, group, roles = 5, 8, 2
    assert plan.cost.answers == 4 * 2 * (8 + 16) * group * turns * roles
    assert plan.cost.cpus > 0 and plan.cost.gpus == 0
    assert plan.points[3] == {RATES: 1e-3, "rollout.tasks": 16}


@pytest.mark.parametrize(
    ("axes", "method", "path", "said"),
    [
        ({"rollout.tasks": [8, 0]}, "grid", "rollout.tasks", "0: "),
        ({"algorithm.clip_lo": [0.1]}, "grid", "algorithm.clip_lo", "did you mean algorithm.clip_low"),
        ({"algorithm.lr": [0.1]}, "grid", "algorithm.lr", "did you mean policies."),
        ({"nowhere.*.x": [1]}, "grid", "nowhere.*.x", "does not match any field"),
        ({"run.seed": [1, 1]}, "grid", "run.seed", "twice"),
        ({"run.seed": []}, "grid", "run.seed", "one or more values"),
        ({"run.iterations": [4, 5]}, "grid", "run.iterations", "both fixed and varied"),
        ({"rollout.group_size": [2, 4], "run.seed": list(range(101))}, "grid", "axes", "202 runs exceed"),
        ({"rollout.group_size": [2, 4], "rollout.tasks": [8]}, "list", "method", "rollout.tasks has 1"),
        ({}, "grid", "axes", "at least one"),
        ({"run.seed": [1]}, "random", "method", "grid, list"),
        ({"algorithm.kl_coefficient": [float("inf")]}, "grid", "algorithm.kl_coefficient", ""),
    ],
)
def test_mistakes_are_told_at_their_fields(axes: dict, method: str, path: str, said: str) -> None:
    plan = plan_make("plan_path_duo", {"run.iterations": 4}, axes, method)
    assert list(plan.errors) == [path] and said in plan.errors[path]
    assert plan.cost is None


def test_combinations_that_cannot_work_are_told() -> None:
    axes = {"rollout.tasks": [8, 300], "resources.environments_per_worker": [100, 200]}
    plan = plan_make("plan_path_duo", {}, axes)
    assert list(plan.errors) == ["resources.environments_per_worker"]
    assert (
        "with tasks=300 · environments_per_worker=100: " in plan.errors["resources.environments_per_worker"]
    )
    assert not plan.points
    assert plan_make("none such", {}, axes).errors.keys() == {"preset"}


def test_a_sweep_launches_its_runs(sweep: Sweep) -> None:
    runs = list(sweep.runs.order_by("created_at"))
    assert len(runs) == 4 and {run.state for run in runs} == {RunState.QUEUED}
    rates = [
        run.config["policies"][name]["learner"]["learning_rate"]
        for run in runs
        for name in ("planner", "executor")
    ]
    assert rates == [1e-4] * 4 + [1e-3] * 4
    assert [run.config["run"]["seed"] for run in runs] == [0, 1, 0, 1]
    assert runs[0].family == runs[1].family != runs[2].family
    assert runs[0].name == "plan_path_duo over learning_rate, seed · learning_rate=0.0001 · seed=0"
    assert runs[0].tags == ["rates"] and runs[0].iterations == 4
    assert AuditEntry.objects.filter(act="sweep.create", target=str(sweep.pk)).exists()


def test_nothing_is_launched_where_something_is_wrong(user: User, project: Project, stranger: User) -> None:
    bad = plan_make("plan_path_duo", {}, {"rollout.tasks": [8, 0]})
    with pytest.raises(ConfigError):
        sweep_create(user, project, bad)
    with pytest.raises(PermissionDenied):
        sweep_create(stranger, project, plan_make("plan_path_duo", {}, {"run.seed": [0, 1]}))
    assert not Sweep.objects.exists() and not Run.objects.exists()


def test_the_form_launches(ada: Client) -> None:
    assert "Varied fields" in ada.get(NEW).content.decode()
    plan = ada.post("/experiments/sweeps/check/", form())
    assert text_of(plan, ".notice") == "6 runs to launch" and "--seeds 0,1,2" in text_of(plan, "#command")
    assert not Run.objects.exists()
    answer = ada.post(NEW, form(name="rates"))
    sweep = Sweep.objects.get()
    assert answer.status_code == 302 and answer.url == f"/experiments/sweeps/{sweep.pk}/"
    assert (sweep.name, sweep.runs.count()) == ("rates", 6)


def test_seeds_of_small_networks_share_a_process_unless_refused(ada: Client) -> None:
    small = form(preset="spread_mappo", field=[""], values=[""])
    apart = ada.post("/experiments/sweeps/check/", small | {"separate_processes": "1"})
    assert text_of(apart, "#command").endswith("--separate-processes")
    for fields in (small, small | {"separate_processes": "1"}):
        assert ada.post(NEW, fields).status_code == 302
    assert list(Sweep.objects.order_by("pk").values_list("separate_processes", flat=True)) == [False, True]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"values": ["nothing, 1e-3"]}, "give a number"),
        ({"values": [""]}, "one or more values"),
        ({"field": [""]}, "name the field"),
        ({"field": [RATES, RATES], "values": ["1", "2"]}, "two rows"),
        ({"shared": "no equals"}, "not of the form key=value"),
        ({"seeds": "0..5000"}, "more than 1000"),
        ({"field": ["run.seed"]}, "its own input"),
    ],
)
def test_what_was_written_is_kept_where_it_is_wrong(ada: Client, change: dict, said: str) -> None:
    answer = ada.post(NEW, form(**change))
    html = answer.content.decode()
    assert answer.status_code == 400 and said in html
    assert "run.iterations=4" in html or "shared" in change
    assert not Sweep.objects.exists()


def test_the_page_ranks_points_and_sorts_runs(ada: Client, sweep: Sweep) -> None:
    for value, run in zip((0.2, 0.4, 0.9, 0.7), sweep.runs.order_by("created_at"), strict=True):
        run.headline = {"eval/success": value}
        run.state = RunState.FINISHED
        run.save()
    document = ada.get(f"/api/v1/sweeps/{sweep.pk}/", {"sort": "-eval/success"}).json()
    assert [row["headline"]["eval/success"] for row in document["results"]] == [0.9, 0.7, 0.4, 0.2]
    best = document["points"][0]
    assert best["values"] == {RATES: 1e-3} and best["n"] == 2
    assert best["mean"] == pytest.approx(0.8) and best["sd"] == pytest.approx(0.1414, abs=1e-4)
    page = ada.get(f"/experiments/sweeps/{sweep.pk}/", {"sort": "-eval/success"})
    values = texts_of(page, "strong")
    assert "4 of 4 runs ended" in text_of(page) and "0.80" in values and not elements(page, "[hx-trigger]")
    assert values.index("0.90") < values.index("0.70")
    assert "Stop all" not in text_of(page)
    (chart,) = elements(page, "[data-group-chart]")
    best_first = [run for point in document["points"] for run in point["runs"]]
    query = parse_qs(urlsplit(chart["data-source"]).query)
    assert query == {"runs": [",".join(best_first)], "key": ["eval/success"], "by": ["family"]}
    assert [group["n"] for group in ada.get(chart["data-source"]).json()["groups"]] == [], (
        "nothing is reported"
    )
    part = ada.get(f"/experiments/sweeps/{sweep.pk}/", headers={"HX-Request": "true"}).content.decode()
    assert "<html" not in part and "Points" in part
    assert sweep.name in ada.get("/experiments/sweeps/").content.decode()


def test_others_neither_see_nor_stop_it(ada: Client, sweep: Sweep, stranger: User) -> None:
    eve = Client()
    eve.force_login(stranger)
    assert eve.get("/api/v1/sweeps/").json() == {"results": []}
    Membership.objects.create(project=sweep.project, user=stranger, level=Membership.Level.VIEWER)
    assert eve.get(f"/experiments/sweeps/{sweep.pk}/").status_code == 200
    assert eve.post(f"/experiments/sweeps/{sweep.pk}/stop/").status_code == 403
    assert eve.post(f"/api/v1/sweeps/{sweep.pk}/stop/").status_code == 403
    assert eve.post(NEW, form()).status_code == 400
    assert {run.state for run in sweep.runs.all()} == {RunState.QUEUED}
    assert ada.post(f"/experiments/sweeps/{sweep.pk}/stop/").status_code == 302
    assert {run.state for run in sweep.runs.all()} == {RunState.STOPPED}


def test_the_command_says_the_same_sweep() -> None:
    said = sweep_command(
        "plan_path_duo", {"run.tags": ["a"]}, {RATES: [1e-4, 1e-3], "run.seed": [0, 1]}, "grid"
    )
    assert said.replace(" \\\n  ", " ") == (
        "troupe sweep launch plan_path_duo 'run.tags=[\"a\"]' --grid 'policies.*.learner.learning_rate=0.0001,0.001' --seeds 0,1"
    )

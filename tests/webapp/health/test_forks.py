"""Findings that fork the run: by themselves, by hand, once, and in the open."""

import json
from typing import Any

import pytest
from django.test import Client

from tests.webapp.api.conftest import caller
from tests.webapp.checkpoints.conftest import Make
from tests.webapp.elements import text_of
from tests.webapp.health.conftest import change, tell
from training_core.config.files import load_config
from training_core.errors import ConfigError
from webapp.accounts.models import AuditEntry, Membership, User
from webapp.checkpoints.models import Checkpoint
from webapp.health.models import Finding
from webapp.health.services import finding_fork, generations, run_check, settings_of
from webapp.runs.models import Attempt, Run, RunState
from webapp.runs.states import TransitionRefused
from webapp.scheduling.forking import run_fork_named

LOWER = "policies.planner.learner.learning_rate=5e-5"
FORK = {"action": "fork", "fork_edits": [LOWER]}


def ill(run: Run) -> Finding:
    """KL of 1.1 nats, a little above the bound, from step 21 to 25, and what the rules say of it."""
    tell(run, 1, "policy/planner/kl", [0.1] * 20 + [1.1] * 5)
    run_check(run.pk)
    return Finding.objects.get(run=run, rule="kl_blow_up")


def rate(run: Run) -> float:
    return float(run.config["policies"]["planner"]["learner"]["learning_rate"])


def test_a_finding_forks_from_before_the_trouble_and_stops_the_run(told: Run, make: Make) -> None:
    change(told, kl_blow_up=FORK)
    for iteration in (10, 20, 21, 30):  # the 21st is of the first bad step: its weights are ill already
        make(iteration)
    finding = ill(told)
    fork = finding.fork
    assert fork is not None
    assert (fork.parent, fork.parent_checkpoint, fork.iteration) == (told, "checkpoints/iteration-000020", 20)
    assert (rate(fork), rate(told), fork.state, fork.owner) == (5e-5, rate(told), "queued", told.owner)
    assert rate(told) != 5e-5
    assert fork.name == f"{told.name} after kl blow up"
    assert finding.done == f"forked it as run {fork.pk} from iteration 20; requested to stop the run"
    told.refresh_from_db()
    assert (told.state, told.stop_requested) == (RunState.STOPPING, "stop")
    entry = AuditEntry.objects.get(act="finding.fork")
    assert (entry.target, entry.details["run"], entry.details["rule"]) == (told.pk, fork.pk, "kl_blow_up")


def test_once_per_finding(told: Run, make: Make) -> None:
    change(told, kl_blow_up=FORK)
    make(20)
    ill(told)
    tell(told, 26, "policy/planner/kl", [0.1] * 5)
    run_check(told.pk)
    tell(told, 31, "policy/planner/kl", [2.0] * 5)
    run_check(told.pk)
    assert Finding.objects.get().state == "open", "it has come back"
    assert Run.objects.filter(parent=told).count() == 1


def test_the_config_says_from_where_and_whether_the_run_goes_on(told: Run, make: Make) -> None:
    change(told, kl_blow_up=FORK, fork={"checkpoint": "best", "stop": False})
    make(10, best=True)
    make(20)
    fork = ill(told).fork
    told.refresh_from_db()
    assert fork and (fork.iteration, told.state) == (10, RunState.RUNNING)


def test_a_fork_of_a_fork_only_as_often_as_the_config_says(told: Run, make: Make) -> None:
    change(told, kl_blow_up=FORK, fork={"generations": 2})
    runs = [told]
    for _ in range(3):
        run = runs[-1]
        make(20, of=run)
        if run is not told:
            Attempt.objects.create(run=run, number=1, submission_id=f"troupe-{run.pk}-1", state="live")
            Run.objects.filter(pk=run.pk).update(state=RunState.RUNNING)
        finding = ill(run)
        if finding.fork:
            runs.append(finding.fork)
    assert [generations(run) for run in runs] == [0, 1, 2]
    assert "2 of its ancestors were already forked by rules" in finding.done


@pytest.mark.parametrize("at", [(), (21, 40)])
def test_a_finding_before_the_first_checkpoint_launches_the_run_again(
    told: Run, make: Make, at: tuple[int, ...]
) -> None:
    """With the edits, from the base models, and as often as the config says."""
    change(told, kl_blow_up=FORK)
    for iteration in at:
        make(iteration)
    again = ill(told).fork
    assert again is not None
    assert (again.parent, again.parent_checkpoint, again.iteration) == (None, "", 0)
    assert (rate(again), again.config["run"]["seed"]) == (5e-5, told.config["run"]["seed"])
    assert generations(again) == 1
    told.refresh_from_db()
    assert told.state == RunState.STOPPING


def test_a_fork_before_its_own_first_checkpoint_starts_again_where_it_started(
    told: Run, user: User, make: Make
) -> None:
    make(20)
    fork = run_fork_named(user, told.pk, "last", {"run.seed": 7})
    again = run_fork_named(user, fork.pk, "last", {"policies.planner.learner.learning_rate": 5e-5})
    assert (again.parent, again.parent_iteration, again.iteration) == (told, 20, 20)
    assert (again.config["run"]["seed"], rate(again)) == (7, 5e-5)


def test_what_cannot_be_forked_is_noted_and_run_goes_on(told: Run, make: Make) -> None:
    change(told, kl_blow_up=FORK)
    make(10)
    Checkpoint.objects.update(removed=True)
    finding = ill(told)
    told.refresh_from_db()
    assert finding.fork is None and "the checkpoints before step 21 are deleted" in finding.done
    assert told.state == RunState.RUNNING


def test_by_hand_with_the_rule_s_edits_or_others(told: Run, user: User, make: Make) -> None:
    make(20)
    finding = ill(told)
    address = f"runs/{told.pk}/findings/{finding.pk}/fork/"
    call = caller(user, "launch")
    Finding.objects.update(rule="overfitting")
    bare = call(address, {})
    assert bare.status_code == 400 and "repeats the run" in bare.json()["errors"]["overrides"]
    Finding.objects.update(rule="kl_blow_up")
    assert call(address, {"edits": {}}).status_code == 400
    Membership.objects.update(level="viewer")
    assert call(address, {"overrides": {"run.seed": 3}}).status_code == 403
    Membership.objects.update(level="owner")
    made = call(address, {"overrides": {"run.seed": 3}})
    assert made.status_code == 201 and made.json()["parent"] == told.pk
    again = call(address, {"overrides": {"run.seed": 4}})
    assert again.status_code == 409 and made.json()["id"] in json.dumps(again.json())
    (shown,) = call(f"runs/{told.pk}/findings/").json()["results"]
    assert shown["fork"] == made.json()["id"]
    (kin,) = call(f"runs/{told.pk}/lineage/").json()["forks"]
    assert (kin["id"], kin["finding"], kin["forked_at"]) == (made.json()["id"], "kl_blow_up", 20)


def test_from_the_page(told: Run, user: User, make: Make) -> None:
    origin, client = make(20), Client()
    client.force_login(user)
    finding = ill(told)
    address = f"/runs/{told.pk}/health/{finding.pk}/fork/"
    asked = client.post(address, {"form": "1"})
    assert asked["Location"] == f"/experiments/new/?fork={origin.pk}", "edits are asked for"
    change(told, kl_blow_up={"fork_edits": [LOWER]})
    page = client.get(f"/runs/{told.pk}/health/").content.decode()
    assert LOWER in page and address in page
    answer = client.post(address)
    finding.refresh_from_db()
    assert finding.fork and answer["Location"] == f"/runs/{finding.fork.pk}/"
    assert address not in client.get(f"/runs/{told.pk}/health/").content.decode(), "once"
    lineage = text_of(client.get(f"/runs/{finding.fork.pk}/"), ".lineage")
    assert "for kl_blow_up" in lineage, lineage


def test_a_click_makes_the_change_to_try_first_and_its_run_says_whether_it_helped(
    told: Run, user: User
) -> None:
    """The KL of `ill` is above its bound at step 25, before any checkpoint."""
    client = Client()
    client.force_login(user)
    finding = ill(told)
    shown = text_of(client.get(f"/runs/{told.pk}/health/"), ".finding-words")
    lower = f"{rate(told) / 10:g}"
    assert f"policies.planner.learner.learning_rate={lower}" in shown, shown
    client.post(f"/runs/{told.pk}/health/{finding.pk}/fork/")
    finding.refresh_from_db()
    again = finding.fork
    assert again is not None and rate(again) == pytest.approx(rate(told) / 10)
    said = []
    for iteration, kl in ((10, 0.1), (30, 0.2), (40, 9.0)):
        Attempt.objects.get_or_create(
            run=again, number=1, defaults={"submission_id": f"troupe-{again.pk}-1", "state": "live"}
        )
        Run.objects.filter(pk=again.pk).update(state=RunState.RUNNING, iteration=iteration)
        tell(again, iteration - 8, "policy/planner/kl", [kl] * 8, f"until {iteration}")
        run_check(again.pk)
        said.append(text_of(client.get(f"/runs/{again.pk}/health/"), "[data-verdict]"))
    assert "too early" in said[0] and "it helped" in said[1] and "it did not help" in said[2]


def test_the_page_offers_a_launch_before_the_first_checkpoint(told: Run, user: User) -> None:
    client = Client()
    client.force_login(user)
    address = f"/runs/{told.pk}/health/{ill(told).pk}/fork/"
    assert "Launch again" in text_of(client.get(f"/runs/{told.pk}/health/"), ".finding-head")
    form = client.post(address, {"form": "1"})["Location"]
    assert form == f"/experiments/new/?from={told.pk}" and client.get(form).status_code == 200


def test_nothing_is_left_of_a_fork_that_is_refused(told: Run, user: User, make: Make) -> None:
    make(20)
    finding = ill(told)
    with pytest.raises(ConfigError):
        finding_fork(user, finding, settings_of(told), {"run.iterations": 5})
    Checkpoint.objects.update(removed=True)
    with pytest.raises(TransitionRefused, match="deleted or damaged"):
        finding_fork(user, finding, settings_of(told), {"run.seed": 5})
    assert Run.objects.count() == 1 and not AuditEntry.objects.filter(act="finding.fork").exists()


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        ({"action": "fork"}, "repeats the run"),
        ({"fork_edits": ["algorithm.nonsense=1"]}, "there is no such field"),
        ({"fork_edits": ["faster"]}, "is not of the form key=value"),
        ({"fork_edits": ["rollout.group_size=-1"]}, "give 1 or more"),
    ],
)
def test_edits_that_make_no_config_are_refused_at_launch(rule: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        load_config("plan_path_duo", {"health.kl_blow_up": rule})
    assert said in refused.value.fields["health.kl_blow_up.fork_edits"]
    assert load_config("plan_path_duo", {"health.kl_blow_up": FORK}).health.kl_blow_up.fork_edits == (LOWER,)

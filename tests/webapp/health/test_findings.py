"""Findings as a run goes on; acts on them in page, API and audit; actions."""

import pytest
from django.test import Client

from tests.webapp.api.conftest import caller, episode
from tests.webapp.health.conftest import change, tell
from training_core.config.health import Health
from webapp.accounts.models import AuditEntry, Membership, User
from webapp.health.models import Checked, Finding
from webapp.health.services import run_check
from webapp.health.tasks import watch
from webapp.runs.models import Run, RunState


def test_a_finding_opens_resolves_and_opens_again(told: Run) -> None:
    tell(told, 1, "policy/planner/kl", [2.0] * 5)
    assert watch() == 1
    found = Finding.objects.get()
    assert (found.rule, found.key, found.state) == ("kl_blow_up", "policy/planner/kl", "open")
    told.refresh_from_db()
    assert told.finding_counts == {"warning": 1}
    assert Checked.objects.get().cursor == told.event_count
    for step in (6, 7, 8, 9, 10, 11):
        tell(told, step, "policy/planner/kl", [0.1])
        found.refresh_from_db()
        assert found.state == "open"
        watch()
    found.refresh_from_db()
    assert (found.state, found.first_step) == ("resolved", 1), "after three calm steps: 9, 10 and 11"
    tell(told, 12, "policy/planner/kl", [9.0] * 5)
    watch()
    found.refresh_from_db()
    told.refresh_from_db()
    assert (found.state, found.first_step, found.last_step) == ("open", 1, 16)
    assert told.finding_counts == {"critical": 1}
    lines = [
        (line.level, line.message.partition(":")[0])
        for line in told.log_lines.filter(source="health").order_by("pk")
    ]
    assert lines == [
        ("warning", "warning finding kl_blow_up"),
        ("info", "closed"),
        ("warning", "warning finding kl_blow_up"),
        ("error", "critical finding kl_blow_up"),
    ]


def test_findings_do_not_depend_on_the_times_of_checks(told: Run) -> None:
    values = [0.1] * 5 + [4.0] * 5 + [0.1] * 8

    def kept() -> list[object]:
        fields = ("rule", "key", "state", "severity", "first_step", "last_step", "title")
        lines = told.log_lines.filter(source="health").order_by("pk").values_list("level", "message")
        return [list(Finding.objects.values_list(*fields)), list(lines)]

    for step, value in enumerate(values, 1):
        tell(told, step, "policy/planner/kl", [value])
        watch()
    stepwise = kept()
    Finding.objects.all().delete()
    Checked.objects.all().delete()
    told.log_lines.filter(source="health").delete()
    run_check(told.pk)
    assert kept() == stepwise and Finding.objects.get().state == "resolved"


def test_a_figure_about_its_bound_does_not_flicker(told: Run) -> None:
    tell(told, 1, "policy/planner/kl", [3.1] * 5)
    seen = []
    for step, value in enumerate([2.9, 3.1, 2.6, 3.3, 2.4] * 3, 6):
        tell(told, step, "policy/planner/kl", [value])
        watch()
        seen.append(Finding.objects.get().severity)
    assert set(seen) == {"critical"}


def test_a_critical_finding_stays_open_until_success_has_recovered(told: Run) -> None:
    """KL is far too high in five iterations and usual afterwards; held-out success, 0.5 before, is lost until step 30."""
    tell(told, 0, "eval/success", [0.5], "first")
    tell(told, 1, "policy/planner/kl", [30.0] * 5)
    tell(told, 10, "eval/success", [0.02], "second")
    run_check(told.pk)
    tell(told, 6, "policy/planner/kl", [0.1] * 10)
    tell(told, 20, "eval/success", [0.03], "third")
    Run.objects.update(state=RunState.FINISHED)
    run_check(told.pk)
    found = Finding.objects.get(rule="kl_blow_up")
    assert (found.state, found.severity, found.critical_first, found.critical_last) == (
        "open",
        "critical",
        1,
        5,
    )
    assert found.lasting == "success has not recovered: 0.5 before, 0.025 now"
    tell(told, 30, "eval/success", [0.6], "fourth")
    tell(told, 40, "eval/success", [0.6], "fifth")
    run_check(told.pk)
    found.refresh_from_db()
    assert (found.state, found.lasting, found.critical_first) == ("resolved", "", 1)


def test_a_nan_is_critical_until_three_steps_are_numbers(told: Run) -> None:
    tell(told, 1, "policy/planner/loss", [1.0, "NaN", 1.0, 1.0])  # type: ignore[list-item]
    run_check(told.pk)
    assert Finding.objects.get().severity == "critical"
    tell(told, 5, "policy/planner/loss", [1.0])
    run_check(told.pk)
    assert Finding.objects.get().severity == "warning"


def test_failed_episodes_are_named_with_their_commonest_error(told: Run) -> None:
    errors = ["ValueError: no reward\nin line 3"] * 2 + ["KeyError: 'x'"]
    for number, error in enumerate(errors):
        episode(told, f"1-1-train-{number}", kind="train", failed=True, error=error)
    tell(told, 1, "rollout/failed", [2.0] * 6)
    tell(told, 1, "progress/episodes", [8.0 * step for step in range(1, 7)], producer="other")
    watch()
    assert Finding.objects.get().title == "25% of training episodes fail: ValueError: no reward"


def test_mistakes_of_the_agent_are_named_with_their_commonest_error(told: Run) -> None:
    """They count as workflow.failure_reward, so their episodes did not fail."""
    for number, error in enumerate(
        ["", "GraphRecursionError: limit of 25", "KeyError: 'x'"] * 2 + ["GraphRecursionError: limit of 25"]
    ):
        episode(told, f"1-1-train-{number}", kind="train", error=error)
    tell(told, 1, "rollout/agent_errors", [6.0] * 6)
    tell(told, 1, "progress/episodes", [8.0 * step for step in range(1, 7)], producer="other")
    watch()
    title = "The agent ends with an error in 75% of training episodes: GraphRecursionError: limit of 25"
    assert Finding.objects.get().title == title


def test_looks_without_new_metrics_relax_nothing(told: Run) -> None:
    tell(told, 1, "policy/planner/kl", [2.0] * 5)
    watch()
    tell(told, 6, "policy/planner/kl", [0.1] * 5)
    assert [watch() for _ in range(5)] == [1] * 5
    assert Finding.objects.get().state == "open"


def test_the_last_look_at_an_ended_run_decides_at_once(told: Run) -> None:
    tell(told, 1, "policy/planner/kl", [2.0] * 5)
    watch()
    tell(told, 6, "policy/planner/kl", [0.1] * 5)
    Run.objects.update(state=RunState.FINISHED)
    watch()
    assert Finding.objects.get().state == "resolved"


def test_what_has_no_news_and_does_not_run_is_left_alone(told: Run) -> None:
    tell(told, 1, "policy/planner/kl", [2.0] * 5)
    Run.objects.update(state=RunState.FINISHED)
    assert (watch(), watch()) == (1, 0)


def test_rules_may_be_off(told: Run) -> None:
    change(told, enabled=False)  # type: ignore[arg-type]
    tell(told, 1, "policy/planner/kl", [2.0] * 5)
    watch()
    assert not Finding.objects.exists()


def test_runs_of_before_have_the_default_rules(told: Run) -> None:
    del told.config["health"]
    told.save()
    tell(told, 1, "policy/planner/kl", [2.0] * 5)
    watch()
    assert Finding.objects.get().action == "notify"


def test_dismissed_stays_so_until_it_is_reopened(told: Run, user: User) -> None:
    call = caller(user, "admin")
    tell(told, 1, "policy/planner/kl", [2.0] * 5)
    run_check(told.pk)
    (shown,) = call(f"runs/{told.pk}/findings/", state="open").json()["results"]
    assert shown["cause"] and shown["remedy"] and shown["figures"]["mean of the latest"] == 2.0
    answer = call(f"runs/{told.pk}/findings/{shown['id']}/dismiss/", {})
    assert (answer.json()["state"], answer.json()["dismissed_by"]) == ("dismissed", "ada")
    tell(told, 6, "policy/planner/kl", [3.0] * 5)
    run_check(told.pk)
    told.refresh_from_db()
    assert told.finding_counts == {}
    assert call(f"runs/{told.pk}/findings/", state="open").json()["results"] == []
    call(f"runs/{told.pk}/findings/{shown['id']}/reopen/", {})
    told.refresh_from_db()
    assert sum(told.finding_counts.values()) == 1
    acts = AuditEntry.objects.order_by("pk").values_list("act", "user__username", "target")
    assert list(acts) == [(act, "ada", told.pk) for act in ("finding.dismiss", "finding.reopen")]


def test_every_rule_is_listed_with_how_near_it_came(told: Run, user: User) -> None:
    tell(told, 1, "policy/planner/kl", [0.5] * 5 + [0.2] * 6)
    tell(told, 1, "policy/planner/clip_fraction", [0.5] * 11, "other")
    run_check(told.pk)
    rows = caller(user, "read")(f"runs/{told.pk}/health/").json()["results"]
    assert [row["rule"] for row in rows[:2]] == ["clip_fraction", "kl_blow_up"], "open ones first"
    facts = {row["rule"]: row for row in rows}
    assert set(facts) == set(Health().rules())
    kl = facts["kl_blow_up"]
    assert (kl["state"], kl["value"], kl["threshold"]) == ("healthy", pytest.approx(0.2), 1.0)
    assert (kl["nearest"], kl["nearest_step"], kl["nearest_key"]) == (0.5, 5, "policy/planner/kl")
    assert (facts["success_fell"]["state"], facts["success_fell"]["why"]) == (
        "no value yet",
        "needs 3 evaluations",
    )
    assert facts["recompilation"]["why"] == "kernels are compiled on GPUs only"
    assert (facts["agent_errors"]["state"], facts["agent_errors"]["why"]) == (
        "does not apply",
        "only with workflow.failure_reward",
    )
    assert facts["clip_fraction"]["state"] == "warning"


def test_who_may_do_what(told: Run, user: User) -> None:
    tell(told, 1, "policy/planner/kl", [2.0] * 5)
    run_check(told.pk)
    path = f"runs/{told.pk}/findings/"
    act = f"{path}{Finding.objects.get().pk}/dismiss/"
    Membership.objects.update(level="viewer")
    assert caller(user, "admin")(act, {}).status_code == 403
    assert caller(user, "admin")(path, state="ill").status_code == 400
    assert caller(user, "admin")(f"{path}999/dismiss/", {}).status_code == 404
    assert Finding.objects.get().state == "open"


def test_the_page_shows_evidence_cause_and_remedy(told: Run, user: User) -> None:
    tell(told, 1, "policy/planner/kl", [2.0] * 5)
    run_check(told.pk)
    client = Client()
    client.force_login(user)
    page = client.get(f"/runs/{told.pk}/health/").content.decode()
    assert "planner is far from its base model" in page and "kl_coefficient" in page
    assert "policy%2Fplanner%2Fkl" in page or "policy/planner/kl" in page
    found = Finding.objects.get()
    assert client.post(f"/runs/{told.pk}/health/{found.pk}/dismiss/").status_code == 302
    assert "Reopen" in client.get(f"/runs/{told.pk}/health/").content.decode()
    assert client.post(f"/runs/{told.pk}/health/{found.pk}/eat/").status_code == 404


@pytest.mark.parametrize("how", ["pause", "stop"])
def test_an_action_is_taken_once(told: Run, how: str) -> None:
    change(told, kl_blow_up={"action": how})
    tell(told, 1, "policy/planner/kl", [2.0] * 5)
    run_check(told.pk)
    told.refresh_from_db()
    assert (told.state, told.stop_requested) == (RunState.STOPPING, how)
    assert Finding.objects.get().done == f"requested to {how} the run"
    entry = AuditEntry.objects.get(act=f"run.{how}")
    assert entry.user is None and entry.details["rule"] == "kl_blow_up"
    Run.objects.update(state=RunState.RUNNING, stop_requested="")
    tell(told, 6, "policy/planner/kl", [2.0] * 5)
    run_check(told.pk)
    told.refresh_from_db()
    assert told.state == RunState.RUNNING, "once per finding"


def test_an_action_that_is_refused_is_noted(told: Run) -> None:
    change(told, kl_blow_up={"action": "stop"})
    tell(told, 1, "policy/planner/kl", [2.0] * 5)
    Membership.objects.all().delete()
    run_check(told.pk)
    assert "could not stop the run" in Finding.objects.get().done

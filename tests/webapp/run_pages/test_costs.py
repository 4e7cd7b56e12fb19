"""What a run costs, by hand."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.test import Client

from tests.webapp.elements import text_of
from tests.webapp.metrics.test_series import event, store
from webapp.accounts.models import User
from webapp.run_pages.costs import run_cost
from webapp.runs.models import Attempt, Run

START = datetime(2026, 1, 1, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def attempt(run: Run, number: int, start: float, end: float | None, **fields: Any) -> Attempt:
    return Attempt.objects.create(
        run=run, number=number, submission_id=f"{run.pk}-{number}", started_at=at(start),
        ended_at=None if end is None else at(end), **fields,
    )  # fmt: skip


def tokens(run: Run, of_attempt: int, counts: dict[int, int]) -> None:
    store(
        run, *(event(step, {"progress/tokens": count}, attempt=of_attempt) for step, count in counts.items())
    )
    run.save(update_fields=["event_count"])


def test_hours_and_tokens_over_two_attempts(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(created_at=at(-30), started_at=at(0))
    attempt(run, 1, 0, 3600)
    attempt(run, 2, 4000, None, heartbeat_at=at(5800), resumed_from="iteration-000020", resumed_iteration=20)
    tokens(run, 1, {10: 1000, 20: 2000, 30: 3000})
    tokens(run, 2, {21: 2100, 22: 2200})
    run.refresh_from_db()
    spent = run_cost(run)
    assert (spent.waited, spent.seconds) == (30.0, 3600.0 + 1800.0)
    assert spent.cpus and spent.cpu_hours == pytest.approx(spent.cpus * 1.5)
    assert spent.gpus == 0 and spent.gpu_hours == 0
    assert spent.tokens == 3000 + 200, "attempt 2 went on from the 2,000 of its checkpoint"
    assert spent.tokens_again == 1000, "of 3,200 the run's own count has 2,200"
    assert [each.tokens for each in spent.attempts] == [3000, 200]
    assert spent.eta_seconds is None and spent.expected_cpu_hours is None


def test_seeds_of_one_process_divide_its_hours(run: Run, client: Client) -> None:
    attempt(run, 1, 0, 3600, shared_job="j", shared_by=3)
    run.refresh_from_db()
    together = run_cost(run)
    assert together.cpus and together.cpu_hours == pytest.approx(together.cpus) and together.shift == 0
    client.force_login(run.owner)
    assert "shared by 3 seeds" in text_of(client.get(f"/runs/{run.pk}/"), "[data-region=cost]")
    attempt(run, 2, 4000, 7600)
    run = Run.objects.get(pk=run.pk)
    spent = run_cost(run)
    assert (spent.cpus, spent.shared_by) == (pytest.approx(3 * together.cpus), 1)
    assert spent.cpu_hours == pytest.approx(4 * together.cpus), "a third of the first hour, and the second"
    assert (spent.seconds + spent.shift) * spent.cpus / 3600 == pytest.approx(spent.cpu_hours)


def test_a_fork_does_not_pay_for_the_run_it_comes_from(run: Run, user: User) -> None:
    tokens(run, 1, {10: 1000, 20: 2000, 30: 3000})
    fork = Run.objects.create(
        project=run.project, owner=user, name="fork", config=run.config, iterations=40, parent=run,
        parent_checkpoint="iteration-000020",
        parent_iteration=20,
    )  # fmt: skip
    attempt(fork, 1, 0, 60)
    tokens(fork, 1, {21: 2100, 25: 2500})
    spent = run_cost(fork)
    assert (spent.tokens, spent.tokens_again) == (500, 0)


def test_what_is_not_known_is_not_invented(run: Run) -> None:
    Run.objects.filter(pk=run.pk).update(config={**run.config, "rollout": {"of another version": 1}})
    run.refresh_from_db()
    spent = run_cost(run)
    facts = (spent.cpus, spent.gpu_hours, spent.tokens, spent.seconds, spent.attempts)
    assert facts == (None, None, 0, 0.0, [])

"""Forks against their parents: whose curves lead in, and which values are compared."""

import pytest
from django.test import Client

from tests.end_to_end.seed import Story, encoded
from tests.webapp.elements import texts_of
from webapp.accounts.models import Membership, Project, User
from webapp.accounts.permissions import Visitor
from webapp.ingest.services import batch_store
from webapp.run_pages.overview import MOST_ANCESTORS, leads_of, versus_parent
from webapp.runs.models import Attempt, Run


def forked(parent: Run, at: int, name: str = "fork") -> Run:
    """A fork of a run."""
    fields = {
        "project": parent.project,
        "owner": parent.owner,
        "preset": parent.preset,
        "config": parent.config,
    }
    return Run.objects.create(
        name=name, parent=parent, parent_iteration=at, iterations=120, iteration=at, **fields
    )


def told(run: Run, **series: list[tuple[int, float]]) -> None:
    """Store points of metrics; `__` in a name is a slash."""
    attempt = run.attempts.count() + 1
    Attempt.objects.create(run=run, number=attempt, state="live", submission_id=f"{run.pk}-{attempt}")
    story = Story(run.pk, attempt)
    events = [
        story.event("metrics", step=step, values={key.replace("__", "/"): value})
        for key, points in series.items()
        for step, value in points
    ]
    batch_store(run.pk, encoded(iter(events)), "")
    run.refresh_from_db()


def columns(*points: tuple[int, float | str]) -> dict[str, list[float | str | int]]:
    """The columns of a series."""
    return {"steps": [step for step, _ in points], "values": [value for _, value in points]}


def test_ancestors_lead_in_up_to_each_fork(run: Run, user: User) -> None:
    child = forked(run, 40, "child")
    grandchild = forked(child, 60)
    assert leads_of(user, run) == []
    assert [lead.label for lead in leads_of(user, grandchild)] == [
        "parent: child until iteration 60",
        f"ancestor: {run.name} until iteration 40",
    ]
    early = forked(child, 40)
    assert [lead.until for lead in leads_of(user, early)] == [40, 40]
    for _ in range(MOST_ANCESTORS):
        grandchild = forked(grandchild, 80)
    assert len(leads_of(user, grandchild)) == MOST_ANCESTORS


def test_parents_of_other_projects_and_visitors_are_not_shown(run: Run, user: User, client: Client) -> None:
    fork = forked(run, 40)
    hidden = Project.objects.create(slug="hidden", name="Hidden")
    Run.objects.filter(pk=run.pk).update(project=hidden, name="secret parent")
    client.force_login(user)
    for page in ("", "curves/"):
        text = client.get(f"/runs/{fork.pk}/{page}").content.decode()
        assert "secret parent" not in text and f"/runs/{run.pk}/" not in text, page
    Membership.objects.create(project=hidden, user=user, level=Membership.Level.VIEWER)
    assert [lead.run for lead in leads_of(user, fork)] == [run]
    assert leads_of(Visitor(fork.project, "run", fork.pk, [fork.pk, run.pk]), fork) == []


@pytest.mark.parametrize(
    ("latest", "expected"),
    [
        ((60, 0.75), (0.25, "parent at step 60")),
        ((65, 0.75), (0.25, "parent at step 60")),
        ((90, 0.75), (0.15, "parent's last, step 70")),
    ],
)
def test_values_are_compared_at_the_same_step(
    run: Run, latest: tuple[int, float], expected: tuple[float, str]
) -> None:
    told(run, eval__success=[(50, 0.1), (60, 0.5), (70, 0.6)])
    match = versus_parent(
        run, {"eval/success": columns((40, 0.2), latest, (95, "NaN"))}, ["eval/success", "x"]
    )
    assert list(match) == ["eval/success"]
    found = match["eval/success"]
    assert (pytest.approx(found.change), found.reference) == expected


def test_replaced_points_of_the_parent_are_not_compared(run: Run) -> None:
    told(run, eval__success=[(50, 0.1), (60, 0.9), (80, 0.9)])
    told(run, eval__success=[(60, 0.5), (70, 0.6)])
    match = versus_parent(run, {"eval/success": columns((90, 0.7))}, ["eval/success"])["eval/success"]
    assert (match.value, match.reference) == (0.6, "parent's last, step 70")
    assert versus_parent(run, {"eval/success": columns((40, 0.7))}, ["eval/success"]) == {}


def test_tiles_of_a_fork_state_the_difference_from_its_parent(run: Run, user: User, client: Client) -> None:
    told(run, eval__success=[(50, 0.25), (60, 0.5)])
    fork = forked(run, 50)
    told(fork, eval__success=[(50, 0.25), (60, 0.75)])
    client.force_login(user)
    text = client.get(f"/runs/{fork.pk}/").content.decode()
    [said] = filter(None, texts_of(text, "[data-versus]"))
    assert said == "+0.25 vs parent at step 60"
    assert "data-versus" not in client.get(f"/runs/{run.pk}/").content.decode()

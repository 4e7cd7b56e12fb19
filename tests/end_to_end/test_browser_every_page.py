"""Every page, reached by links alone: no serious fault by axe, no error in the console, nothing wider than the screen."""

import pytest
from playwright.sync_api import Page

from tests.end_to_end.conftest import run_told, tell
from tests.end_to_end.crawling import NO_PAGES, SCHEMES, Crawl, page_kinds
from tests.end_to_end.test_browser_provenance import artifact_make
from webapp.accounts.models import Project, User
from webapp.experiments.services import sweep_create
from webapp.experiments.sweeps import plan_make
from webapp.health.models import Finding
from webapp.jobs.models import Job
from webapp.notifications.services import destination_make
from webapp.reports.services import report_create
from webapp.runs.models import Phase, Run

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True), pytest.mark.timeout(1800)]

ACTS = {
    "accounts:member-remove", "accounts:token-revoke", "jobs:form-preview", "experiments:edit", "experiments:estimate",
    "experiments:sweep-check", "experiments:sweep-stop", "experiments:template-delete", "experiments:template-save",
    "health:act", "health:fork", "jobs:cancel", "jobs:say", "jobs:start",
    "reports:delete", "reports:preview", "reports:restore", "reports:share", "runs:act", "runs:bulk", "runs:checkpoint-act",
    "runs:checkpoints-prune", "runs:edit", "runs:note", "runs:note-change", "runs:note-remove", "runs:view-act", "runs:view-save",
    "shares:revoke", "transcripts:note", "transcripts:note-remove",
    "transcripts:query-save", "transcripts:query-remove", "notifications:act", "notifications:again", "accounts:logout",
    "runs:headline", "compare:share", "reports:new", "artifacts:alias", "artifacts:version-delete", "artifacts:prune",
}  # fmt: skip
"""What is sent, not visited."""


def full_run(user: User) -> Run:
    """A run with something of everything."""
    made, story = run_told(user, iterations=24, ago=30)
    tell(made, story.media(1))
    tell(made, story.media(20))
    Phase.objects.bulk_create(
        Phase(
            run=made, attempt=1, cursor=1, iteration=iteration, worker=worker, phase=phase, policy="planner",
            start=story.now + 10 * iteration, end=story.now + 10 * iteration + 6,
        )
        for iteration in range(10)
        for worker, phase in (("rollout-0", "rollout"), ("update-0", "update"))
    )  # fmt: skip
    Finding.objects.create(
        run=made, rule="entropy_collapse", key="policy/planner/entropy", severity="critical",
        title="The planner's entropy fell to 0.02", first_step=12, last_step=20,
        evidence={"figures": [["entropy", 0.02]], "series": ["policy/planner/entropy"]},
    )  # fmt: skip
    return made


def other_things(user: User, run: Run) -> None:
    """What else has pages of its own."""
    lab = Project.objects.get(slug="lab")
    Job.objects.create(kind="dry_run", project=lab, owner=user, config=run.config)
    sweep_create(user, lab, plan_make("plan_path_duo", {}, {"run.seed": [0, 1]}), "seeds")
    report_create(
        user, lab, "What was seen", f"It **rises**.\n\n```chart\nruns: {run.pk}\nkey: train/return\n```\n"
    )
    artifact_make(run)
    destination_make(user, lab, "webhook", "chat", "http://127.0.0.1:9")


@pytest.fixture
def run(ada: User) -> Run:
    made = full_run(ada)
    other_things(ada, made)
    return made


@pytest.mark.parametrize(
    ("schemes", "axe"),
    [(SCHEMES[:1], False), pytest.param(SCHEMES, True, marks=pytest.mark.extended)],
    ids=["layout", "axe"],
)
def test_every_page_is_reached_and_has_no_serious_fault(
    page: Page, run: Run, schemes: tuple[str, ...], axe: bool
) -> None:
    other = Run.objects.exclude(pk=run.pk)[0]
    crawl = Crawl(page, schemes, axe=axe).walk(f"/compare/?runs={run.pk},{other.pk}").walk("/runs/")
    assert not crawl.faults, "\n".join(crawl.faults)
    assert page_kinds() >= ACTS | NO_PAGES
    assert sorted(page_kinds() - set(crawl.seen) - ACTS - NO_PAGES) == [], "reached by no link"

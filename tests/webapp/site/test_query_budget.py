"""No page needs more database queries than its budget, and none moves more than 400 kB without being asked."""

import time
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.end_to_end.seed import Story, encoded
from webapp.accounts.models import Project, User
from webapp.experiments.models import Sweep
from webapp.experiments.services import sweep_create
from webapp.experiments.sweeps import plan_make
from webapp.health.models import Finding
from webapp.ingest.services import batch_store
from webapp.jobs.models import Job
from webapp.metrics.models import Series
from webapp.notifications.models import Destination
from webapp.notifications.services import destination_make
from webapp.reports.models import Report
from webapp.reports.services import report_create
from webapp.run_pages.charts import MOST_SHOWN
from webapp.runs.models import Attempt, Phase, Run

MOST_QUERIES, MOST_BYTES = 13, 400_000
RUN_PAGES = """/ curves/ curves/entropy/ checkpoints/ logs/ config/ transcripts/ transcripts/?q=right
transcripts/?q=right&role=planner&reward_min=1&label=good transcripts/?query=turns>0 transcripts/table/
transcripts/curve/?query=probe probes/ timeline/ health/ artifacts/ media/ episodes/{episode}/ episodes/{episode}/tree/
episodes/{episode}/diff/"""
PAGES = """/runs/ /runs/?q=plan /runs/?group=family /runs/?charts=1 /runs/?filter=run.seed<9 /experiments/new/?preset=plan_path_duo
/experiments/new/?run={run} /experiments/sweeps/ /experiments/sweeps/new/ /experiments/sweeps/{sweep}/ /artifacts/ /jobs/ /jobs/{job}/
/compare/?runs={run},{other} /compare/config/?runs={run},{other} /compare/parallel/?runs={run},{other}
/compare/probes/?runs={run},{other} /compare/media/?runs={run},{other}
/reports/ /reports/{report}/ /reports/{report}/edit/ /reports/{report}/versions/ /cluster/
/account/tokens/ /account/projects/ /account/password/ /account/projects/lab/members/ /account/projects/lab/tokens/
/account/projects/lab/audit/ /account/projects/lab/shares/ /account/projects/lab/quotas/ /account/projects/lab/webhooks/
/account/projects/lab/webhooks/{hook}/ /docs/ /docs/curves/"""


@pytest.fixture
def ada(run: Run, project: Project, user: User) -> Client:
    """The browser of the owner of a project with something of everything."""
    Attempt.objects.create(run=run, number=1, state="live", submission_id=f"{run.pk}-1")
    story = Story(run.pk, start=time.time() - 30)
    batch_store(run.pk, encoded(story.opening()), "")
    batch_store(run.pk, encoded(story.iterations(0, 24)), "")
    batch_store(run.pk, encoded(story.media(1)), "")
    span = {"worker": "w", "phase": "rollout", "start": story.now, "end": story.now + 6}
    Phase.objects.create(run=run, attempt=1, cursor=1, iteration=1, **span)
    facts = {
        "rule": "entropy_collapse", "key": "policy/planner/entropy", "severity": "critical", "title": "fell",
    }  # fmt: skip
    Finding.objects.create(run=run, first_step=12, last_step=20, **facts)
    Job.objects.create(kind="dry_run", project=project, owner=user, config=run.config)
    sweep_create(user, project, plan_make("plan_path_duo", {}, {"run.seed": [0, 1]}), "seeds")
    report_create(
        user, project, "What was seen", f"It **rises**.\n\n```chart\nruns: {run.pk}\nkey: train/return\n```\n"
    )
    destination_make(user, project, "webhook", "chat", "http://127.0.0.1:9")
    client = Client(HTTP_ACCEPT_ENCODING="gzip")
    client.force_login(user)
    return client


def test_every_page_stays_within_its_budget(ada: Client, run: Run) -> None:
    ids: dict[str, Any] = {
        "run": run.pk, "other": Run.objects.exclude(pk=run.pk)[0].pk, "episode": run.episodes.order_by("-pk")[0].pk,
        "sweep": Sweep.objects.get().pk, "job": Job.objects.get().pk, "report": Report.objects.get().pk,
        "hook": Destination.objects.get().pk,
    }  # fmt: skip
    for address in (*(f"/runs/{{run}}/{page.lstrip('/')}" for page in RUN_PAGES.split()), *PAGES.split()):
        check_budget(ada, address.format(**ids))


def test_curves_of_many_metrics_stay_within_their_budget(ada: Client, run: Run) -> None:
    Series.objects.bulk_create(Series(run=run, key=f"net/unit_{number}") for number in range(MOST_SHOWN))
    Run.objects.filter(pk=run.pk).update(series_count=run.series.count())
    check_budget(ada, f"/runs/{run.pk}/curves/")


def check_budget(browser: Client, address: str) -> None:
    """Open a page and count its queries and bytes."""
    with CaptureQueriesContext(connection) as asked:
        answer = browser.get(address)
    aside = ("SAVEPOINT", "RELEASE")
    queries = [query["sql"] for query in asked.captured_queries if not query["sql"].startswith(aside)]
    assert answer.status_code == 200, address
    assert len(queries) <= MOST_QUERIES, "\n".join([address, *(sql[-250:] for sql in queries)])
    assert len(answer.content) <= MOST_BYTES, address

"""Pages label a return with shaped rewards as such, after success."""

import pytest
from django.test import Client

from tests.webapp.elements import elements, texts_of
from tests.webapp.run_pages.test_pages import told
from webapp.accounts.models import User
from webapp.agents.rewards import return_label, shaped_label
from webapp.jobs.models import Job
from webapp.reports.services import report_create
from webapp.run_pages.charts import all_sections, overview_panels
from webapp.runs.models import Run


@pytest.fixture
def shaped(run: Run) -> Run:
    """A run of plan_path, which rewards progress, with a success and a return."""
    told(run, eval__success=[(1, 0.5)], eval__return=[(1, 1.5)], train__return=[(1, 1.25)])
    return run


def test_labels_of_metrics_name_shaped_returns_once(run: Run) -> None:
    plain = {"environment": {"type": "custom"}}
    assert (return_label(run.config), return_label(plain), return_label({})) == (
        "return (shaped)",
        "return",
        "return",
    )
    assert shaped_label("Return of evaluations", [plain, run.config]) == "Return (shaped) of evaluations"
    assert shaped_label("eval/return (shaped)", [run.config]) == "eval/return (shaped)"
    assert shaped_label("eval/success", [run.config]) == "eval/success"


def test_charts_lead_with_success(shaped: Run) -> None:
    keys = ["train/return", "train/success", "eval/return", "eval/success"]
    titles = [panel.title for panel in overview_panels(shaped, keys)]
    assert titles[:2] == ["Success", "Return (shaped)"]
    sections = all_sections(keys, shaped)
    assert [[panel.title for panel in section.panels] for section in sections] == [
        ["success", "return (shaped)"]
    ] * 2


@pytest.mark.parametrize(
    "address",
    ["/runs/?columns=train/return", "/compare/?runs={run}&key=eval/return", "/compare/parallel/?runs={run}&axes=eval/return,run.seed",
     "/reports/{report}/", "/jobs/{job}/", "/runs/{run}/transcripts/"],
)  # fmt: skip
def test_pages_name_shaped_returns(shaped: Run, user: User, ada: Client, address: str) -> None:
    block = f"```chart\nruns: {shaped.pk}\nkey: eval/return\n```\n\n```figures\nruns: {shaped.pk}\nkey: eval/return\n```"
    report = report_create(user, shaped.project, "Returns", block)
    job = Job.objects.create(
        project=shaped.project, owner=user, run=shaped, kind="evaluate", config=shaped.config, state="finished",
        result={"success": 0.5, "return": 1.5, "episodes": 2},
    )  # fmt: skip
    page = ada.get(address.format(run=shaped.pk, report=report.pk, job=job.pk))
    assert page.status_code == 200
    labels = texts_of(page, "th") + texts_of(page, "h2") + texts_of(page, "h3") + texts_of(page, "dt")
    returns = [label.replace(" ?", "") for label in labels if "return" in label.lower()]
    assert returns and all("(shaped)" in label for label in returns), returns


def test_default_columns_begin_with_success(shaped: Run, ada: Client) -> None:
    heads = [
        head for head in texts_of(ada.get("/runs/"), "thead th") if "success" in head or "return" in head
    ]
    assert [head.replace(" ?", "") for head in heads] == ["success, greedy", "return (shaped)"]
    assert elements(ada.get("/runs/"), "th .help-button[aria-label=Explain]")

"""A report as a file."""

from pathlib import Path

from django.conf import settings
from django.http import HttpResponse
from django.template.loader import render_to_string
from django.utils.safestring import mark_safe
from django.utils.text import slugify

from training_core.errors import ConfigError
from webapp.common.attachments import attachment
from webapp.compare.drawing import curves_drawn
from webapp.reports.models import Report
from webapp.reports.rendering import ReportPart, report_parts

FORMATS = {"md": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8"}
STYLES = ("tokens", "base", "components", "charts", "compare", "probes", "reports")


def export_text(report: Report, kind: str) -> str:
    """Return "md": the original text; "html": a self-contained page with the current charts.

    Raises ConfigError for another kind.
    """
    if kind not in FORMATS:
        raise ConfigError({"as": f"use one of {', '.join(FORMATS)}"})
    if kind == "md":
        return f"# {report.title}\n\n{report.text}"
    return render_to_string(
        "reports/export.html",
        {"report": report, "parts": [_still(part) for part in report_parts(report.project, report.text)],
         "style": _style(), "alone": True},
    )  # fmt: skip


def export_answer(report: Report, kind: str) -> HttpResponse:
    """Return the file as a download. Raises ConfigError."""
    text = export_text(report, kind)
    name = f"{slugify(report.title) or 'report'}-{report.pk}.{kind}"
    headers = {"Content-Disposition": attachment(name)}
    return HttpResponse(text, content_type=FORMATS[kind], headers=headers)


def _still(part: ReportPart) -> ReportPart:
    """Replace a chart with a picture that needs no script."""
    if part.template != "reports/_chart.html":
        return part
    return ReportPart(
        "reports/_picture.html", part.facts | {"drawn": curves_drawn(part.facts["curves"], part.facts["log"])}
    )


def _style() -> str:
    """Return the application's style sheets; none of them contains user text."""
    folder = Path(settings.STATICFILES_DIRS[0]) / "css"
    return mark_safe("\n".join((folder / f"{name}.css").read_text() for name in STYLES))

"""Template tags and filters: formats, sparklines, relative times, the user's projects."""

import json
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from math import isfinite
from typing import Any

from django import template
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from webapp.common import formats
from webapp.common.templatetags.components import help_button

register = template.Library()
for _name in ("number", "figure", "change", "hours", "signed", "fixed", "reward", "duration", "size"):
    register.filter(_name, getattr(formats, _name))

STATED_TIME = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d UTC)")
"""A time in a sentence."""
WIDTH, HEIGHT = 100.0, 24.0


@register.filter
def unlocalized(value: float) -> str:
    """Format a number for an attribute of an SVG."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


@register.filter
def get(mapping: dict[str, Any] | None, key: str) -> Any:
    """Return mapping[key], or None."""
    return (mapping or {}).get(key)


@register.filter
def counted(run: dict[str, Any]) -> str:
    """Return what the run of a summary counts: steps for a custom program, iterations for a trainer of Troupe."""
    return "step" if run["source"] == "client" else "iteration"


@register.filter
def progress(run: dict[str, Any]) -> str:
    """Return "12 of 40", or "step 12" if the total is not known; empty before the first step. As static/js/run/progress.js."""
    if run["iterations"]:
        return f"{formats.number(run['iteration'])} of {formats.number(run['iterations'])}"
    return f"{counted(run)} {formats.number(run['iteration'])}" if run["iteration"] else ""


@register.filter
def paired(values: Sequence[Any], others: Sequence[Any]) -> list[tuple[Any, Any]]:
    """Return the pairs of two sequences of the same length."""
    return list(zip(values, others, strict=True))


@register.filter
def spelled(value: Any) -> str:
    """Format a config value as in a form: lists with commas, no quotes."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, list | tuple):
        return ", ".join(spelled(item) for item in value)
    return formats.NONE if value is None else str(value)


@register.filter
def code_words(text: str) -> SafeString:
    """Escape plain text and mark text between backticks as code."""
    pieces = enumerate(text.split("`"))
    return format_html_join(
        "",
        "{}",
        ((format_html("<code>{}</code>", piece) if index % 2 else piece,) for index, piece in pieces),
    )


@register.filter
def pretty(value: Any) -> str:
    """Format JSON with indentation."""
    return json.dumps(value, indent=2, ensure_ascii=False)


@register.filter
def when(moment: datetime | str | None) -> SafeString | str:
    """Return a relative time as a <time> element that times.js updates."""
    if not moment:
        return formats.NONE
    moment = datetime.fromisoformat(moment) if isinstance(moment, str) else moment
    past = (timezone.now() - moment).total_seconds()
    text = "just now" if past < 5 else " ".join(formats.duration(past).split()[:2]) + " ago"
    return _time(moment, "ago", text)


@register.filter
def moment(moment: datetime | None) -> SafeString | str:
    """Return date and time as a <time> element: in UTC, which times.js replaces with the zone of the browser."""
    return _time(moment, "moment", f"{moment.astimezone(UTC):%Y-%m-%d %H:%M} UTC") if moment else formats.NONE


@register.filter
def clock(moment: datetime | None) -> SafeString | str:
    """Return the time of day as a <time> element, as `moment`."""
    return _time(moment, "clock", f"{moment.astimezone(UTC):%H:%M:%S} UTC") if moment else formats.NONE


@register.filter
def with_times(text: str) -> SafeString:
    """Escape plain text, and show the times in it ("2026-03-01 12:05 UTC") as `moment`."""
    pieces = enumerate(STATED_TIME.split(text))
    return format_html_join(
        "",
        "{}",
        (
            (
                moment(datetime.strptime(piece, "%Y-%m-%d %H:%M UTC").replace(tzinfo=UTC))
                if index % 2
                else piece,
            )
            for index, piece in pieces
        ),
    )


def _time(moment: datetime, kind: str, text: str) -> SafeString:
    title = f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    return format_html(
        '<time datetime="{}" title="{}" data-time="{}">{}</time>', moment.isoformat(), title, kind, text
    )


@register.filter
def sparkline(spark: dict[str, Any] | None) -> SafeString | str:
    """Return a small curve of `Run.headline["spark"]`; empty for fewer than two points."""
    line = spark_points((spark or {}).get("values") or [])
    if not line:
        return ""
    return format_html(
        '<svg class="spark" viewBox="0 0 100 24" preserveAspectRatio="none" aria-hidden="true">'
        '<polyline points="{}"/></svg>',
        line,
    )


def spark_points(values: Sequence[float | None]) -> str:
    """Return points of an SVG polyline in a 100 x 24 box; gaps are connected."""
    points = [(index, value) for index, value in enumerate(values) if value is not None]
    if len(points) < 2:
        return ""
    low, high = min(value for _, value in points), max(value for _, value in points)
    span = (high - low) or 1.0
    last = points[-1][0] or 1
    return " ".join(
        f"{WIDTH * index / last:.1f},{HEIGHT - 2 - (HEIGHT - 4) * (value - low) / span:.1f}"
        for index, value in points
    )


KINDS = {"train": "training", "eval": "greedy", "eval_sampled": "sampled"}


@register.filter
def episode_name(name: str) -> str:
    """Return the short form of the trainer's id: "1-89-train-31" is 89·31."""
    parts = name.split("-")
    return f"{parts[1]}\N{MIDDLE DOT}{parts[3]}" if len(parts) == 4 else name


@register.filter
def episode_kind(kind: str) -> str:
    """Return the label of an episode's kind."""
    return KINDS.get(kind, kind)


@register.filter
def outcome(episode: Any) -> str:
    """Return an episode's outcome; "error" if its environment raised one."""
    return "error" if _field(episode, "failed") else str(_field(episode, "outcome"))


@register.filter
def outcome_tone(episode: Any) -> str:
    """Return the CSS class of an episode's outcome."""
    return "bad" if _field(episode, "failed") else "good" if _field(episode, "success") else "soft"


@register.filter
def fact_tone(episode: Any) -> str:
    """Return the CSS class of an episode's outcome in a list of facts, where only an error is bad and only a success is good."""
    return "" if outcome_tone(episode) == "soft" else outcome_tone(episode)


@register.filter
def quarter_tone(episode: Any, bounds: Sequence[float] | None) -> str:
    """Return the CSS class of an episode's outcome: by quarters of returns if there are any, otherwise by success."""
    value = _field(episode, "episode_return")
    if bounds is None or _field(episode, "failed") or not isfinite(value):
        return outcome_tone(episode)
    return ("lowest", "soft", "", "highest")[sum(value >= bound for bound in bounds)]


def _field(episode: Any, name: str) -> Any:
    return episode.get(name) if isinstance(episode, dict) else getattr(episode, name)


@register.filter
def field_owner(path: str) -> str:
    """Return the owner of a field with an ambiguous name: the role or policy in a dotted path, the part of a type."""
    parts = path.split(".")
    if len(parts) == 2:
        return parts[0] if parts[1] == "type" else ""
    return parts[2] if parts[0] == "team" else parts[1]


@register.simple_tag(takes_context=True)
def sort_header(
    context: template.Context, sort: str, label: str, style: str = "", kind: str = "", name: str = ""
) -> SafeString:
    """Return a column header that sorts the table, first as in `sort`, then reversed; not sortable if `sort` is empty.

    A "?" button explains the `name` of a `kind`, if there is one (webapp/documents/views.py).
    """
    help_ = format_html(" {}", help_button(context, kind, label, name, named=False)) if kind and name else ""
    if not sort:
        return format_html('<th scope="col" class="{}">{}{}</th>', style, label, help_)
    query = context["request"].GET.copy()
    now, name = query.get("sort", ""), sort.removeprefix("-")
    other = name if sort.startswith("-") else f"-{name}"
    state = "none" if now.removeprefix("-") != name else "descending" if now.startswith("-") else "ascending"
    query.pop("page", None)
    query["sort"] = other if now == sort else sort
    arrow = {"none": "", "ascending": " ↑", "descending": " ↓"}[state]
    return format_html(
        '<th scope="col" class="{}" aria-sort="{}"><a href="?{}">{}{}</a>{}</th>',
        style,
        state,
        query.urlencode(),
        label,
        arrow,
        help_,
    )

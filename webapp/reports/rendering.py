"""Renders a report: sanitised Markdown, blocks generated from runs, files.

A block is a fenced code block whose language is a name of BLOCKS:

    ```chart
    runs: abcd2345, efgh6789
    filter: tag = baseline
    key: eval/success
    by: family
    band: ci
    ```

Names are the parameters of a comparison's URL; a complete URL is allowed too: /compare/?runs=...&key=... A report shows only
runs of its own project, so every reader of the report may read them. HTML in the text is escaped; pictures are removed, because
browsers would load them from external addresses.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import Http404, HttpResponse, QueryDict
from django.template.loader import render_to_string
from django.urls import reverse
from django.utils.safestring import mark_safe
from django.utils.text import slugify
from markdown_it import MarkdownIt
from markdown_it.token import Token

from training_core.errors import ConfigError
from webapp.accounts.models import Project
from webapp.agents.rewards import shaped_label
from webapp.common.attachments import attachment
from webapp.common.markdown import cleaned, markdown_parser
from webapp.common.tones import role_tones
from webapp.compare.choice import (
    MOST_GROUPED,
    MOST_RUNS,
    Choice,
    choice_demand,
    configs_of,
    meant,
    runs_chosen,
)
from webapp.compare.curves import curves_read
from webapp.compare.drawing import curves_drawn
from webapp.compare.statistics import figures_of, runs_compare
from webapp.compare.table import configs_differ
from webapp.reports.models import Report
from webapp.runs.models import ACTIVE_STATES, Run
from webapp.transcripts.bodies import episode_document
from webapp.transcripts.models import Episode

MOST_BLOCKS = 40
Closed = Callable[[str], bool]
MOST_TURNS = 40
FORMATS = {"md": "text/markdown; charset=utf-8", "html": "text/html; charset=utf-8"}
STYLES = ("tokens", "base", "components", "charts", "compare", "probes", "reports")


@dataclass
class ReportPart:
    """A piece of text, or a block: `template` is rendered with `facts`."""

    template: str
    facts: dict[str, Any] = field(default_factory=dict)


def block_read(project: Project, name: str, source: str) -> ReportPart:
    """Return the block, or an error message if it cannot be rendered."""
    try:
        return BLOCKS[name](project, _facts(source))
    except ConfigError as error:
        return _wrong(name, str(error))
    except Http404 as error:
        return _wrong(name, f"{error} A report shows runs of its own project.")


def _wrong(name: str, reason: str) -> ReportPart:
    return ReportPart("reports/_wrong.html", {"name": name, "wrong": reason})


def _facts(source: str) -> dict[str, str]:
    """Parse `name: value` lines, or one URL. Raises ConfigError."""
    lines = [line.strip() for line in source.splitlines() if line.strip()]
    if len(lines) == 1 and (lines[0].startswith("/") or lines[0].startswith("http")):
        return {
            name: value
            for name, value in QueryDict(urlsplit(lines[0]).query).items()
            if isinstance(value, str)
        }
    facts = {}
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name.strip().isidentifier():
            raise ConfigError({"block": f"{line[:60]!r} is not a line of a block: use name: value"})
        facts[name.strip()] = value.strip()
    return facts


def _compared(project: Project, facts: Mapping[str, str], most: int = MOST_RUNS) -> tuple[list[Run], Choice]:
    query = QueryDict(mutable=True)
    query.update(dict(facts))
    choice = choice_demand(query)
    mine = Run.objects.filter(project=project).select_related("project", "owner")
    runs = runs_chosen(mine, choice.run_ids, choice.filter, choice.by, most)
    return runs, meant(choice, runs)


def _chart(project: Project, facts: Mapping[str, str]) -> ReportPart:
    runs, choice = _compared(project, facts, MOST_GROUPED)
    return ReportPart(
        "reports/_chart.html",
        {
            "key": choice.keys[0],
            "label": shaped_label(choice.keys[0], configs_of(runs)),
            "curves": curves_read(runs, choice, choice.keys[0]),
            "log": choice.log,
            "live": any(run.state in ACTIVE_STATES for run in runs),
            "address": _address(choice),
            "csv": f"{reverse('compare:csv')}?{choice.query(runs=','.join(run.pk for run in runs), filter='')}",
        },
    )


def _figures(project: Project, facts: Mapping[str, str]) -> ReportPart:
    runs, choice = _compared(project, facts, MOST_GROUPED)
    figures = figures_of(runs_compare(runs, choice, choice.keys[0]))
    return ReportPart("reports/_figures.html", {"figures": figures, "address": _address(choice)})


def _config(project: Project, facts: Mapping[str, str]) -> ReportPart:
    runs, choice = _compared(project, facts)
    difference = configs_differ(runs, choice.by, choice.all)
    return ReportPart(
        "reports/_config.html", {"difference": difference, "address": _address(choice, "compare:config")}
    )


def _address(choice: Choice, page: str = "compare:page") -> str:
    return f"{reverse(page)}?{choice.query()}"


def _transcript(project: Project, facts: Mapping[str, str]) -> ReportPart:
    """Render `episode: 123`, optionally limited with `turns: 2-5`."""
    number = facts.get("episode", "")
    if not number.isdecimal() or len(number) > 18:
        raise ConfigError({"episode": "give the number of an episode, as in the URL of its transcript"})
    matching = (
        Episode.objects.filter(pk=int(number), run__project=project)
        .select_related("run")
        .defer("words", "groups", "run__facts")
    )
    episode = matching.first()
    if episode is None:
        raise Http404(f"there is no episode {number}")
    turns = list(enumerate(episode_document(episode).get("turns", []), 1))
    first, last = _range(facts.get("turns", ""), len(turns))
    tones = role_tones(episode.run.config)
    shown = [_turn(number, turn, tones) for number, turn in turns if first <= number <= last][:MOST_TURNS]
    whole = len(shown) == len(turns)
    address = reverse("transcripts:detail", args=[episode.run_id, episode.pk])
    if shown and not whole:
        address += f"#turn-{shown[0]['number']}"
    cited = {"episode": episode, "turns": shown, "of": len(turns), "whole": whole, "address": address}
    return ReportPart("reports/_transcript.html", cited)


def _turn(number: int, turn: Mapping[str, Any], tones: Mapping[str, int]) -> dict[str, Any]:
    candidates = turn["candidates"]
    executed = candidates[turn["executed"]] if candidates else {}
    return {
        "number": number,
        "role": turn["role"],
        "tone": tones.get(turn["role"], 0),
        "saw": turn["messages"],
        "said": executed.get("text", ""),
        "reward": executed.get("reward"),
    }


def _range(text: str, count: int) -> tuple[int, int]:
    if not text:
        return 1, count
    first, _, last = text.partition("-")
    if not all(part.strip().isdecimal() and len(part) < 10 for part in (first, last or first)):
        raise ConfigError({"turns": f"{text[:40]!r} is not a range: use turns: 3 or turns: 2-5"})
    return int(first), int(last or first)


BLOCKS: dict[str, Callable[[Project, Mapping[str, str]], ReportPart]] = {
    "chart": _chart,
    "figures": _figures,
    "config": _config,
    "transcript": _transcript,
}


def _markdown() -> MarkdownIt:
    return markdown_parser().disable("image")


def report_parts(project: Project, text: str, closed: Closed = lambda address: False) -> list[ReportPart]:
    """Return text and blocks in order. The error of a block is shown in its place.

    closed: whether the reader cannot open the page at an address; the text of such a link is shown without the link.
    """
    markdown, parts = _markdown(), []
    pending: list[Token] = []
    blocks = 0
    for token in _lowered(markdown.parse(text)):
        token.children = _opened(token.children, closed) if token.children else token.children
        name = (
            token.info.split()[0] if token.type == "fence" and token.level == 0 and token.info.split() else ""
        )
        if name not in BLOCKS:
            pending.append(token)
            continue
        parts += _text(markdown, pending)
        pending, blocks = [], blocks + 1
        if blocks > MOST_BLOCKS:
            parts.append(_wrong(name, f"at most {MOST_BLOCKS} blocks are shown"))
            continue
        block = block_read(project, name, token.content)
        if closed(block.facts.get("address", "")):
            block.facts["address"] = ""
        block.facts["number"] = blocks
        parts.append(block)
    return parts + _text(markdown, pending)


def _opened(tokens: Sequence[Token], closed: Closed) -> list[Token]:
    """Return the tokens of a line without links to closed pages; links are not nested."""
    tokens_left: list[Token] = []
    dropped = False
    for token in tokens:
        if token.type == "link_open":
            dropped = closed(str(token.attrs.get("href", "")))
        if not (dropped and token.type in ("link_open", "link_close")):
            tokens_left.append(token)
    return tokens_left


def _lowered(tokens: Sequence[Token]) -> Sequence[Token]:
    """Lower headings by one level: the page's title is above them."""
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{min(6, int(token.tag[1]) + 1)}"
    return tokens


def _text(markdown: MarkdownIt, tokens: Sequence[Token]) -> list[ReportPart]:
    if not tokens:
        return []
    return [
        ReportPart(
            "reports/_text.html", {"html": cleaned(markdown.renderer.render(tokens, markdown.options, {}))}
        )
    ]


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

"""Renders a report's Markdown as parts of a page: sanitised text, and blocks generated from runs.

A block is a fenced code block whose language is a name of webapp.reports.blocks.BLOCKS. HTML in the text is escaped;
pictures are removed, because browsers would load them from external addresses.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.token import Token

from webapp.accounts.models import Project
from webapp.common.markdown import cleaned, markdown_parser
from webapp.reports.blocks import BLOCKS, block_read

MOST_BLOCKS = 40
Closed = Callable[[str], bool]


@dataclass
class ReportPart:
    """A piece of text, or a block: `template` is rendered with `facts`."""

    template: str
    facts: dict[str, Any] = field(default_factory=dict)


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
            wrong = f"at most {MOST_BLOCKS} blocks are shown"
            parts.append(ReportPart("reports/_wrong.html", {"name": name, "wrong": wrong}))
            continue
        template, facts = block_read(project, name, token.content)
        if closed(facts.get("address", "")):
            facts["address"] = ""
        parts.append(ReportPart(template, facts | {"number": blocks}))
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

"""Markdown of people and of the documentation, as HTML without scripts."""

from collections.abc import Mapping

import nh3
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt

TAGS = {
    "a", "blockquote", "br", "code", "em", "h2", "h3", "h4", "h5", "h6", "hr", "li", "ol", "p", "pre", "s", "strong",
    "table", "tbody", "td", "th", "thead", "tr", "ul",
}  # fmt: skip
ATTRIBUTES = {"a": {"href", "title"}, "ol": {"start"}}
SCHEMES = {"http", "https", "mailto"}


def markdown_parser(*, html: bool = False) -> MarkdownIt:
    """Return a parser of CommonMark with tables and strikethrough; without `html`, HTML in the text is escaped."""
    return MarkdownIt("commonmark", {"html": html}).enable(["table", "strikethrough"])


def cleaned(html: str, more: Mapping[str, set[str]] | None = None) -> SafeString:
    """Keep only the tags, attributes and schemes above and `more` (attributes by tag); links do not send a referrer."""
    more = more or {}
    attributes = {tag: ATTRIBUTES.get(tag, set()) | more.get(tag, set()) for tag in {*ATTRIBUTES, *more}}
    clean = nh3.clean(
        html,
        tags=TAGS | set(more) - {"*"},
        attributes=attributes,
        url_schemes=SCHEMES,
        link_rel="noopener noreferrer nofollow",
    )
    return mark_safe(clean)

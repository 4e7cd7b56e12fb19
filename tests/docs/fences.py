"""Fenced blocks of the documentation's pages, with the reason why a block is not run.

A block that cannot be run in a test has a comment above it: <!-- not run: REASON -->.
"""

import re
from dataclasses import dataclass

from markdown_it import MarkdownIt

from tests.architecture.source import ROOT

MARK = re.compile(r"<!-- not run: (.+?) -->", re.DOTALL)
PAGES = ("README.md", *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md")))

SHELLS = ("sh", "bash", "console")
COMMAND = re.compile(
    r"^(?:\$ )?(?:export |[A-Z_]+=\S+ )*(?:\.venv/bin/)?(troupe|python3?|make|curl|pip|cat|vllm)\b",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Fence:
    """A fenced or indented block."""

    page: str
    line: int
    language: str
    text: str
    reason: str
    """Why it is not run; empty: it is run."""

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def fences(page: str) -> list[Fence]:
    """Return the blocks of a page in order."""
    blocks, reason = [], ""
    for token in MarkdownIt("commonmark").enable("table").parse((ROOT / page).read_text()):
        if token.type in ("fence", "code_block") and token.map:
            blocks.append(Fence(page, token.map[0] + 1, token.info.strip() or "text", token.content, reason))
        if token.type == "html_block":
            match = MARK.search(token.content)
            reason = " ".join(match[1].split()) if match else ""
        elif not token.hidden:
            reason = ""
    return blocks


def kind(fence: Fence) -> str:
    """What a block holds."""
    if fence.language in ("toml", "json", "python"):
        return fence.language
    return "shell" if fence.language in SHELLS or COMMAND.search(fence.text) else "text"

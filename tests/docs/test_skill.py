"""The skill for assistants: its tools and their arguments exist, its commands do, and its page is served without the front matter.

That every command is accepted is tested in test_commands.py; that its order of work leads to the cause of a fault in
tests/end_to_end/test_assistant.py.
"""

import re
from typing import Any

import yaml

from tests.architecture.source import ROOT
from tests.docs.test_commands import problem
from troupe_client.mcp.tools import TOOLS
from webapp.documents.rendering import document_get

SKILL = ROOT / "docs/use/assistants/SKILL.md"
PAGE = ROOT / "docs/use/assistants.md"


def rows() -> list[tuple[str, str, list[str]]]:
    """The tool, its command and its arguments in every row of the table."""
    cells = [
        line.strip("| ").split(" | ") for line in SKILL.read_text().splitlines() if line.startswith("| ")
    ]
    quoted = [re.findall(r"`([^`]+)`", cell) for row in cells[1:] for cell in row[1:2]]
    return [(names[0], row[2].strip("`"), names[1:]) for names, row in zip(quoted, cells[1:], strict=True)]


def arguments(tool: str) -> set[str]:
    return set(TOOLS[tool].parameters["properties"])


def test_the_skill_says_when_to_use_it() -> None:
    _, front, _ = SKILL.read_text().split("---\n", 2)
    facts: dict[str, Any] = yaml.safe_load(front)
    assert re.fullmatch("[a-z0-9-]{1,64}", facts["name"]) and 0 < len(facts["description"]) <= 1024


def test_the_skill_has_every_tool_with_arguments_and_a_command() -> None:
    table = rows()
    assert {tool for tool, _, _ in table} == set(TOOLS)
    assert not [(tool, name) for tool, _, names in table for name in names if name not in arguments(tool)]
    assert not [(command, wrong) for _, command, _ in table if (wrong := problem(command))]


def test_the_page_has_every_tool_with_its_scope() -> None:
    listed = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", PAGE.read_text(), re.MULTILINE))
    reading = {name: bool(tool.annotations and tool.annotations.readOnlyHint) for name, tool in TOOLS.items()}
    assert listed == {name: "read" if reads else "launch" for name, reads in reading.items()}


def test_the_skill_is_a_page_without_its_front_matter() -> None:
    page = document_get("skill")
    assert page is not None and page.title == "Troupe" and "description:" not in page.html

"""The reading path exists and is short; each principle names a test that exists."""

import ast
import re

from tests.architecture.source import ROOT

TEXT = (ROOT / "CONTRIBUTING.md").read_text()
LINES = 1500


def section(title: str) -> str:
    """The text below a heading."""
    return TEXT.partition(f"## {title}\n")[2].partition("\n## ")[0]


def length(entry: str) -> int:
    """Lines of a file, or of functions and methods in it."""
    path, _, names = entry.partition(": ")
    source = (ROOT / path).read_text()
    if not names:
        return len(source.splitlines())
    functions = {
        node.name: node.end_lineno - node.lineno + 1
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef) and node.end_lineno
    }
    return sum(functions[name] for name in names.split(", "))


def test_the_reading_path_is_short() -> None:
    entries = re.findall(r"\| `([^`]+)` \|$", section("Read the code"), re.MULTILINE)
    lengths = {entry: length(entry) for entry in entries}
    assert len(lengths) > 10
    assert sum(lengths.values()) <= LINES, lengths


def test_each_principle_names_a_test() -> None:
    principles = [line for line in section("Principles").splitlines() if line]
    assert len(principles) == 10
    for line in principles:
        paths = re.findall(r"`(tests/[^`]+)`", line)
        assert paths and all((ROOT / path).exists() for path in paths), line

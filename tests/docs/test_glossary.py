"""The glossary names what exists, and each term once."""

import re

from tests.architecture.source import ROOT, modules

ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs/glossary.md").read_text().splitlines()
    if line.startswith("| ") and not line.startswith("| term")
]


def test_classes_and_paths_of_the_glossary_exist() -> None:
    source = "\n".join(path.read_text() for path in modules().values())
    classes = set(re.findall(r"^class (\w+)", source, re.MULTILINE))
    named = [name for term, meaning, _ in ROWS for name in re.findall(r"`([^`]+)`", term + meaning)]
    assert len(named) > 10
    assert not [name for name in named if not ((ROOT / name).exists() if "/" in name else name in classes)]


def test_a_term_has_one_row() -> None:
    terms = [term for row in ROWS for term in re.sub(r"\(.*?\)|`", "", row[0]).replace(" ,", ",").split(", ")]
    assert len(terms) > 50
    assert sorted(term.strip() for term in terms) == sorted({term.strip() for term in terms})

"""The documentation against the source: made pages are fresh, names and links exist."""

import re
from pathlib import Path

import pytest

from docs.environment_variables import GROUPS, INTERNAL
from docs.make_configuration import PAGE, page
from tests.architecture.source import ROOT, modules
from training_core.config.files import load_config, parse_overrides, preset_names
from workers.cli.app import app

PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
TEXT = "\n".join(path.read_text() for path in PAGES)
NAME = re.compile(r"\"((?:TROUPE|RAY)_[A-Z_]+|DATABASE_URL|REDIS_URL)\"")


def test_the_configuration_page_is_fresh() -> None:
    assert PAGE.read_text() == page(), "run make docs"


def test_every_environment_variable_is_documented_and_read() -> None:
    told = {name for _, _, rows in GROUPS for name, _, _ in rows}
    read = {name for path in modules().values() for name in NAME.findall(path.read_text())}
    assert read - INTERNAL == told


def test_pages_name_no_variable_that_nobody_reads() -> None:
    told = {name for _, _, rows in GROUPS for name, _, _ in rows}
    assert set(re.findall(r"TROUPE_[A-Z_]+[A-Z]", TEXT)) <= told | INTERNAL


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_between_files_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", path.read_text()):
        assert (path.parent / target).exists(), f"{path.name} links to {target}"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_files_that_pages_name_exist(path: Path) -> None:
    prefix = r"`((?:training_core|workers|webapp|tests|templates|static|docker|docs)/[\w./-]+\w)/?`"
    for name in re.findall(prefix, path.read_text()):
        assert (ROOT / name).exists(), f"{path.name} names {name}"


def test_commands_on_the_pages_exist() -> None:
    known = {
        command.name or command.callback.__name__ for command in app.registered_commands if command.callback
    }
    used = set(re.findall(r"^(?:\$ )?(?:\.venv/bin/)?troupe ([a-z]+)", TEXT, re.MULTILINE))
    used |= set(re.findall(r"`troupe ([a-z]+)", TEXT))
    assert used
    assert used <= known
    targets = set(re.findall(r"^([a-z]+(?: [a-z]+)*):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    targets = {name for group in targets for name in group.split()}
    assert set(re.findall(r"`make ([a-z]+)", TEXT)) <= targets


def test_overrides_on_the_pages_are_accepted() -> None:
    lines = re.findall(r"troupe (?:launch|run) (\w+) ([^\n`#]+)", TEXT)
    assert lines
    for preset, words in lines:
        assert preset in preset_names()
        load_config(preset, parse_overrides([word for word in words.split() if not word.startswith("-")]))

"""The tables for the test that runs the documents: every entry is of use to a page."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from tests.docs.fences import PAGES, fences, kind
from tests.end_to_end.walk_tables import (
    CHEAP_LAUNCH,
    CLONES,
    FILES,
    PRELUDES,
    REAL,
    SERVING,
    WITHOUT_WAITING,
    of_all,
    of_page,
)
from tests.end_to_end.walk_world import World
from tests.end_to_end.walking import REQUEST, commands, read_within
from training_core.config.files import load_config

TRAINING = (*REAL, "README.md")


def typed(page: str) -> str:
    """The commands, programs and requests of a page that are run, one a line."""
    lines: list[str] = []
    for fence in fences(page):
        if not fence.reason:
            shell = [command for _, command in commands(fence)] if kind(fence) == "shell" else []
            lines += shell or ([fence.text] if kind(fence) == "python" else REQUEST.findall(fence.text))
    return "\n".join(lines)


@pytest.fixture
def world() -> World:
    """A world without a stack: the values of placeholders are not computed."""
    return World(cast(Any, None), Path("work"), ["a", "b", "c"])


def test_every_placeholder_of_the_tables_is_on_a_page(world: World) -> None:
    texts = {page: typed(page) for page in PAGES}
    whole = "\n".join(texts.values())
    training = "\n".join(texts[page] for page in TRAINING)
    unused = [
        f"{page}: {pattern}"
        for page in PAGES
        for pattern, _ in of_page(world, page)
        if not re.search(pattern, training if page in TRAINING else texts[page])
    ]
    unused += [pattern for pattern, _ in of_all(world) if not re.search(pattern, whole)]
    unused += [line for line in (SERVING, WITHOUT_WAITING) if not re.search(line, whole, re.MULTILINE)]
    assert not unused, unused


def test_every_other_entry_of_the_tables_is_of_use() -> None:
    assert {*FILES, *CLONES, *REAL} <= set(PAGES)
    firsts = {fence.text.partition("\n")[0] for page in PAGES for fence in fences(page) if not fence.reason}
    assert set(PRELUDES) <= firsts
    unused = [
        f"{page}: {name}"
        for page, files in FILES.items()
        for name in files
        if name.partition("/")[0] not in "\n".join(f.text for f in fences(page))
    ]
    assert not unused, unused
    load_config("plan_path_duo", {name.replace("__", "."): value for name, value in CHEAP_LAUNCH.items()})


def test_a_silent_server_is_ended_with_a_clear_error() -> None:
    silent = [sys.executable, "-c", "import time; time.sleep(600)"]
    with subprocess.Popen(silent, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        with pytest.raises(AssertionError, match="troupe serve: no output within 0.1 s"):
            read_within(server, server.stdout.readline, "troupe serve", 0.1)
    assert server.returncode == -9

"""Every command and program of README.md and docs/, typed in order by a reader with one stack."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.fences import PAGES, fences, kind
from tests.end_to_end.running_stack import RunningStack
from tests.end_to_end.walk_tables import CLONES, FILES, PRELUDES, REAL, SERVING, shortener, substitutions
from tests.end_to_end.walk_world import World, make_world
from tests.end_to_end.walking import REQUEST, Reader
from training_core.config.files import parse_config, read_preset, to_toml

pytestmark = [pytest.mark.stack, pytest.mark.soak, pytest.mark.timeout(1800)]
WALKED = [
    page
    for page in PAGES
    if any(
        not fence.reason and (kind(fence) in ("shell", "python") or REQUEST.search(fence.text))
        for fence in fences(page)
    )
]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A stack with what the pages presume."""
    running = RunningStack(TROUPE_WEBHOOK_NETWORKS="127.0.0.0/8", TROUPE_IMPORT_PACKAGES="desk")
    try:
        running.start()
        filled = make_world(running, tmp_path_factory.mktemp("walk") / "checkout")
        yield filled
        filled.close()
    finally:
        running.remove()


@pytest.mark.parametrize("page", WALKED)
def test_a_page_runs_as_written(page: str, world: World, tmp_path: Path) -> None:
    world.begin(training=page in REAL)
    folder = tmp_path / "page"
    folder.mkdir()
    reader = Reader(
        page, folder, world.environment(folder) | {"RUN": world.runs[0]}, substitutions(world, page), shortener(page),
        SERVING, PRELUDES, world.settle_newest if page in REAL else lambda command: None,
    )  # fmt: skip
    reader.prepare()
    if page in CLONES:
        shutil.copytree(world.work / ".git", folder / ".git")
        (folder / "worlds.py").write_text("boats = 1\n")
    for name, text in FILES.get(page, {}).items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(to_toml(parse_config(read_preset(text[1:]))) if text.startswith("@") else text)
    problems = list(reader.walk())
    world.stop_waiting()
    if page in REAL:
        world.quota(0)
    assert not problems, "\n\n".join(problems)
